//! A lease whose record is damaged: nobody holds it, and the next one gets it.

use aedb_queue::{Db, Effects, ErrorKind, FencedCommit, HeldLease, Lease, LeaseLength, LeaseOutcome, RenewOutcome};
use futures::executor::block_on;

use crate::file::{LEASES, flip, plant_below};

const LENGTH: LeaseLength = LeaseLength::secs(30);

fn acquire(lease: &Lease, owner: &str) -> HeldLease {
    match block_on(lease.acquire(owner, LENGTH)).unwrap() {
        LeaseOutcome::Acquired(held) => held,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_lease_is_lost_to_its_holder_and_goes_to_the_next_one_under_a_greater_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let held = acquire(&Db::open(&path).unwrap().lease("keeper").unwrap(), "first");
    plant_below(&path, LEASES, flip);
    let db = Db::open(&path).unwrap();
    let lease = db.lease("keeper").unwrap();
    assert_eq!(block_on(lease.status()).unwrap_err().kind(), ErrorKind::Corrupt);
    let write = || Effects::new().put("written", "by the first");
    assert!(matches!(block_on(lease.renew(&held, LENGTH)).unwrap(), RenewOutcome::Lost));
    assert!(matches!(block_on(lease.guarded_commit(&held, write())).unwrap(), FencedCommit::LeaseLost(_)));
    block_on(lease.release(&held)).unwrap();
    let next = acquire(&lease, "second");
    assert!(next.token > held.token);
    assert!(matches!(block_on(lease.guarded_commit(&held, write())).unwrap(), FencedCommit::LeaseLost(_)));
    assert_eq!(block_on(db.default_scope().kv().get("written")).unwrap(), None);
    assert!(block_on(lease.guarded_commit(&next, write())).unwrap().is_applied());
    assert!(acquire(&lease, "second").token > next.token);
}
