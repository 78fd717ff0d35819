//! Upkeep of the worker's queues: what is due moves ahead of the claims, and what is finished and old goes.

use aedb_queue::{Result, RetentionLimits};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Line, Shared, chance};
use crate::events;

/// Sweeps until told to stop, at about every tenth poll. One that fails is made again at the next turn: claims move what is due by
/// themselves. A sweep that finds nothing writes nothing.
pub(crate) async fn sweep(shared: &Shared, over: &CancellationToken) -> Result<()> {
    let every = shared.parts.poll * 10;
    loop {
        let pause = every.mul_f64(chance::between(0.8..=1.2));
        tokio::select! {
            biased;
            () = over.cancelled() => return Ok(()),
            () = sleep(pause) => {}
        }
        for line in &shared.parts.lines {
            sweep_one(shared, line, over).await;
            if let Ok(stats) = line.queue.stats().await {
                events::depth(line.queue.name(), &stats, line.queue.now());
            }
        }
    }
}

async fn sweep_one(shared: &Shared, line: &Line, over: &CancellationToken) {
    while !over.is_cancelled() {
        let Ok(report) = line.queue.sweep(RetentionLimits::default()).await else { return };
        shared.bury(&line.queue, &report.died).await;
        if !report.more {
            return;
        }
    }
}
