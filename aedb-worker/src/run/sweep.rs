//! Upkeep of the worker's queue: what is due moves ahead of the claims, and what is finished and old goes.

use std::sync::Arc;
use std::time::Duration;

use aedb_queue::RetentionLimits;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::claim::Shared;

/// How often a worker sweeps. A sweep that finds nothing writes nothing.
const EVERY: Duration = Duration::from_secs(10);

/// Sweeps until told to stop. One that fails is made again at the next turn: claims move what is due by themselves.
pub(crate) async fn sweep(shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(EVERY) => {}
        }
        while !stop.is_cancelled() {
            match shared.worker.queue.sweep(RetentionLimits::default()).await {
                Ok(report) if report.more => {}
                _ => break,
            }
        }
    }
}
