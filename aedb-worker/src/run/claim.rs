//! The claim loop: slots first, then a claim, so that nothing is leased that cannot start soon.

use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{ClaimRequest, ClaimedTask, Error, ErrorKind, LeaseLength, Result};
use futures_util::future::abortable;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use super::attempt;
use super::entry::Begin;
use super::lines::{CROWDED, Turns};
use super::pause::Pause;
use super::{Mode, Shared, WorkerState, monotonic};
use crate::events;

/// How much longer than its wait a claim may take before the loop asks anew.
const SLACK: Duration = Duration::from_secs(5);

/// Claims and starts attempts until it is dropped, or nothing is due if it drains.
pub(crate) async fn claim(shared: &Arc<Shared>, mode: Mode) -> Result<()> {
    let mut turns = Turns::new(&shared.parts.lines, shared.parts.strict);
    let mut pause = Pause::new();
    loop {
        shared.control.resumed().await;
        let mode = if shared.control.drain.is_cancelled() { Mode::Drain } else { mode };
        let mut slots = free_slots(shared).await?;
        // Asked before the claim: an attempt that ends while that is on its way may have made its task ready behind it.
        let nothing_ran = shared.running.is_empty();
        match fetch(shared, &mut turns, &mut slots, mode).await {
            Ok(0) if mode == Mode::Drain => {
                drop(slots);
                let changed = shared.running.changed.notified();
                if nothing_ran {
                    return Ok(());
                }
                if !shared.running.is_empty() {
                    changed.await;
                }
            }
            Ok(_) => pause.reset(),
            Err(error) if is_final(error.kind()) => return Err(error),
            Err(error) => {
                shared.control.set(WorkerState::Failing);
                events::store_away("claim", pause.failed(), &error);
                drop(slots);
                sleep(pause.next()).await;
            }
        }
    }
}

/// Waits for a free slot, then takes all that are free.
async fn free_slots(shared: &Shared) -> Result<OwnedSemaphorePermit> {
    let closed = |_| Error::new(ErrorKind::Unavailable, "the worker has stopped");
    if shared.slots.available_permits() == 0 {
        shared.control.set(WorkerState::Busy);
    }
    let mut slots = Arc::clone(&shared.slots).acquire_owned().await.map_err(closed)?;
    let more = u32::try_from(shared.slots.available_permits()).unwrap_or(u32::MAX);
    // Only this loop takes slots, so those that were free still are.
    if more > 0
        && let Ok(more) = Arc::clone(&shared.slots).try_acquire_many_owned(more)
    {
        slots.merge(more);
    }
    shared.control.set(WorkerState::Polling);
    Ok(slots)
}

/// Asks each queue in its turn; if none has work, waits on all of them. Answers how many attempts it started.
async fn fetch(shared: &Arc<Shared>, turns: &mut Turns, slots: &mut OwnedSemaphorePermit, mode: Mode) -> Result<usize> {
    let (order, mut started) = (turns.order(), 0);
    let waits_at_once = order.len() == 1 && mode == Mode::Forever;
    if !waits_at_once {
        for line in &order {
            let free = slots.num_permits();
            if free == 0 {
                break;
            }
            let tasks = ask(shared, *line, turns.share(*line, free), Duration::ZERO).await?;
            shared.control.set(WorkerState::Polling);
            if tasks.is_empty() {
                turns.idle(*line);
            } else {
                turns.serve(*line, tasks.len());
            }
            started += begin(shared, *line, tasks, slots);
        }
    }
    if started > 0 || mode == Mode::Drain {
        return Ok(started);
    }
    let (line, tasks) = wait(shared, &order, slots.num_permits()).await?;
    turns.serve(line, tasks.len());
    Ok(begin(shared, line, tasks, slots))
}

/// Waits until one of the queues has work. The claims on the others are dropped, and give back what they got meanwhile.
async fn wait(shared: &Shared, order: &[usize], free: usize) -> Result<(usize, Vec<ClaimedTask>)> {
    let asked = order.len().min(free);
    let wait = if asked < order.len() { CROWDED.min(shared.parts.poll) } else { shared.parts.poll };
    let claims =
        order.iter().take(asked).map(|line| async move { (*line, ask(shared, *line, free / asked, wait).await) });
    let mut claims: FuturesUnordered<_> = claims.collect();
    loop {
        tokio::select! {
            biased;
            answered = claims.next() => match answered {
                Some((line, Ok(tasks))) if !tasks.is_empty() => return Ok((line, tasks)),
                Some((_, Ok(_))) => {}
                Some((_, Err(error))) => return Err(error),
                None => return Ok((order.first().copied().unwrap_or(0), Vec::new())),
            },
            () = shared.control.paused() => return Ok((order.first().copied().unwrap_or(0), Vec::new())),
            () = shared.control.drain.cancelled() => return Ok((order.first().copied().unwrap_or(0), Vec::new())),
        }
    }
}

async fn ask(shared: &Shared, line: usize, most: usize, wait: Duration) -> Result<Vec<ClaimedTask>> {
    let parts = &shared.parts;
    let request = ClaimRequest::new(Arc::clone(&parts.owner), LeaseLength::of(parts.lease))
        .names(parts.registry.keys().cloned())
        .max(most)
        .wait(wait);
    let late = |_| Err(Error::new(ErrorKind::Unavailable, "the store did not answer a claim"));
    timeout(wait + SLACK, parts.line(line).claim(request)).await.unwrap_or_else(late)
}

/// Starts attempts, one slot each.
fn begin(shared: &Arc<Shared>, line: usize, tasks: Vec<ClaimedTask>, slots: &mut OwnedSemaphorePermit) -> usize {
    let count = tasks.len();
    for task in tasks {
        // A claim asks for no more tasks than there are slots.
        let Some(slot) = slots.split(1) else { return count };
        start(shared, line, task, slot);
    }
    events::in_flight(shared.running.count());
    count
}

fn start(shared: &Arc<Shared>, line: usize, task: ClaimedTask, slot: OwnedSemaphorePermit) {
    let parts = &shared.parts;
    events::claimed(&task);
    // By the store's clock, because a claim that waited may have been served long after it was sent.
    let left = task.deadline.saturating_since(parts.now());
    let lease = parts.registry.get(&task.name).and_then(|found| found.defaults.lease).unwrap_or(parts.lease);
    let safe = monotonic::now() + left;
    let (entry, room) =
        shared.running.begin(Begin { task, line, lease, safe, checkpoint_every: parts.checkpoint_every, slot });
    if left <= 2 * entry.margin() {
        // The answer was late, or the process slept through the lease since: there is no time for it, and it goes back unstarted.
        entry.ask(Duration::ZERO);
    }
    let (attempt, abort) = abortable(attempt::live(Arc::clone(shared), Arc::clone(&entry), room));
    entry.spawned(abort);
    shared.attempts.spawn(attempt.map(drop));
}

/// Whether the same call can never be served: then the worker ends and says why, instead of waiting for ever.
pub(crate) fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::TooLarge | ErrorKind::PermissionDenied)
}
