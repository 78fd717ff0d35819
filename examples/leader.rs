//! Shows leader election: one of two candidates holds the lease, and a leader that slept too long cannot write any more.
//! Run it with `cargo run --example leader`.

use std::time::Duration;

use aedb_queue::{Db, Effects, FencedCommit, HeldLease, Lease, LeaseLength, LeaseOutcome};

const TERM: LeaseLength = LeaseLength::secs(1);

/// Tries until it is the leader.
async fn campaign(lease: &Lease, candidate: &str) -> aedb_queue::Result<HeldLease> {
    loop {
        match lease.acquire(candidate, TERM).await? {
            LeaseOutcome::Acquired(held) => {
                println!("{candidate} leads, with the token {}", held.token);
                return Ok(held);
            }
            LeaseOutcome::Held { owner, .. } => {
                println!("{candidate} waits: {owner} leads");
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
    }
}

/// The work of a leader. It is written only if the lease is held at the very commit.
async fn lead(lease: &Lease, held: &HeldLease, leader: &str, round: u32) -> aedb_queue::Result<bool> {
    let work = Effects::new().put("last-round", format!("{round} by {leader}"));
    let written = lease.guarded_commit(held, work).await?;
    println!("{leader}, round {round}: {written:?}");
    Ok(written == FencedCommit::Applied)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::memory()?;
    let lease = db.lease("leader")?;

    let first = campaign(&lease, "node-a").await?;
    assert!(lead(&lease, &first, "node-a", 1).await?);
    println!("node-a renews: {:?}", lease.renew(&first, TERM).await?);

    // node-a stalls (a long pause, a cut network), and node-b takes over when the lease has run out.
    let second = campaign(&lease, "node-b").await?;
    assert!(lead(&lease, &second, "node-b", 2).await?);

    // node-a wakes up and still believes that it leads: its write is refused, however late it comes.
    assert!(!lead(&lease, &first, "node-a", 3).await?);

    // A leader that leaves gives the lease back, so that nobody waits for its end.
    lease.release(&second).await?;
    let third = campaign(&lease, "node-a").await?;
    assert!(lead(&lease, &third, "node-a", 4).await?);
    let last = db.default_scope().kv().get("last-round").await?.unwrap_or_default();
    println!("the last round was {}", String::from_utf8_lossy(&last));
    Ok(())
}
