//! Presence: a lease in the scope that says which names this worker knows, so that `explain` can tell why a task waits.

use std::time::Duration;

use aedb_queue::{HeldLease, Lease, LeaseLength, LeaseOutcome, LiveWorker, RenewOutcome, Result};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::events;

/// How often a worker writes its sign of life; an idle one writes nothing else.
const EVERY: Duration = Duration::from_mins(1);
/// How long it is believed to live without one.
const BELIEVED: LeaseLength = LeaseLength::secs(180);

/// Announces the worker until told to stop, then takes the announcement back.
pub(crate) async fn announce(shared: &Shared, over: &CancellationToken) -> Result<()> {
    let (parts, mut held, mut row) = (&shared.parts, None, 0);
    let lease = parts.scope.lease(&format!("{}{}", LiveWorker::PREFIX, parts.owner))?;
    loop {
        match keep(shared, &lease, held.take()).await {
            Ok(kept) => (held, row) = (kept, 0),
            Err(error) => {
                row += 1;
                events::store_away("presence", row, &error);
            }
        }
        tokio::select! {
            biased;
            () = over.cancelled() => break,
            () = sleep(EVERY) => {}
        }
    }
    if let Some(held) = held {
        // If this fails, the announcement runs out by itself.
        let _ = lease.release(&held).await;
    }
    Ok(())
}

async fn keep(shared: &Shared, lease: &Lease, held: Option<HeldLease>) -> Result<Option<HeldLease>> {
    if let Some(held) = held
        && let RenewOutcome::Renewed(_) = lease.renew(&held, BELIEVED).await?
    {
        return Ok(Some(held));
    }
    let parts = &shared.parts;
    let queues: Vec<_> = parts.lines.iter().map(|line| line.queue.name()).collect();
    let names: Vec<_> = parts.registry.keys().map(|name| &**name).collect();
    let (host, process) = whereabouts();
    let note = LiveWorker::note(&host, process, &queues, &names)?;
    Ok(match lease.acquire_with(&parts.owner, BELIEVED, note).await? {
        LeaseOutcome::Acquired(held) => Some(held),
        _ => None, // another worker of this name; it speaks for both
    })
}

/// The host and the process; in a simulation always the same, so that it can be repeated anywhere.
fn whereabouts() -> (String, u32) {
    #[cfg(feature = "simulation")]
    if super::simulated::is_on() {
        return ("simulated".to_owned(), 1);
    }
    (host(), std::process::id())
}

/// This machine's name.
pub(crate) fn host() -> String {
    gethostname::gethostname().to_string_lossy().replace(char::is_control, "")
}
