//! Heartbeats: one batched call for all attempts, three times in a lease.

use std::sync::Arc;

use aedb_queue::{Heartbeat, HeartbeatOutcome, LeaseLength};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::claim::Shared;

/// Extends all leases until told to stop. An attempt whose lease is lost is cancelled at once.
pub(crate) async fn beat(shared: Arc<Shared>, stop: CancellationToken) {
    let lease = LeaseLength::of(shared.worker.lease);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(shared.worker.lease / 3) => {}
        }
        let tasks = shared.running.tasks();
        if tasks.is_empty() {
            continue;
        }
        let beats = tasks.iter().map(|task| Heartbeat::new(task, lease)).collect();
        // A call that failed is made again in a third of a lease; two may fail before anything is lost.
        let Ok(answers) = shared.worker.queue.heartbeat_batch(beats).await else { continue };
        for (task, answer) in tasks.iter().zip(answers) {
            if let HeartbeatOutcome::LeaseLost(_) = answer {
                shared.running.cancel(task);
            }
        }
    }
}
