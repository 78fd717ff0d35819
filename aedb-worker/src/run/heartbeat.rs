//! Heartbeats: one batched call for all attempts, three times in a lease, and a look at each attempt's own time in between.
//!
//! This runs on the worker's own thread, so a handler that blocks every thread of the application's runtime keeps its lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aedb_queue::{
    Decision, Error, ErrorKind, Heartbeat, HeartbeatOutcome, Json, LeaseLength, LeaseLoss, Queue, Result, Retry,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Entry, Shared, monotonic};
use crate::events;

/// How often attempts are looked at while there are any, and for how many of them once more as long, since a look costs time for each.
const LOOK: Duration = Duration::from_millis(50);
const FOR_EACH: usize = 2_500;
/// A handler that holds its thread for longer is named.
const BLOCKING: Duration = Duration::from_secs(1);
/// How long the handler of a cancelled task may clean up. Its writes are refused already.
const CLEAN_UP: Duration = Duration::from_secs(1);
/// The same when the lease is lost: somebody else may be running the task.
const LEAVE: Duration = Duration::from_millis(100);

/// What one call for the attempts of one queue answered.
type Answered = (Vec<(Arc<Entry>, Option<Json>)>, Instant, Result<Vec<HeartbeatOutcome>>);

/// Extends all leases until told to stop. An attempt whose lease is lost is stopped at once.
pub(crate) async fn beat(shared: &Shared, over: &CancellationToken) -> Result<()> {
    let every = shared.parts.shortest_lease() / 3;
    let (mut next, mut row, mut soonest) = (monotonic::now() + every, 0, None);
    let mut call: Option<BoxFuture<'_, Vec<Answered>>> = None;
    loop {
        let changed = shared.running.changed.notified();
        if shared.running.is_empty() && call.is_none() {
            tokio::select! {
                biased;
                () = over.cancelled() => return Ok(()),
                () = changed => {}
            }
            next = monotonic::now() + every;
        }
        let crowd = u32::try_from(shared.running.count() / FOR_EACH).unwrap_or(u32::MAX);
        let look = LOOK.saturating_mul(crowd.saturating_add(1)).min(every / 4);
        let look = soonest.map_or(look, |at: Instant| look.min(at.saturating_duration_since(monotonic::now())));
        tokio::select! {
            biased;
            () = over.cancelled() => return Ok(()),
            answered = answer(&mut call) => {
                call = None;
                let failed = answered.into_iter().filter_map(take).last();
                row = if let Some(error) = failed {
                    events::store_away("heartbeat", row + 1, &error);
                    next = next.min(monotonic::now() + every / 10);
                    row + 1
                } else {
                    0
                };
            }
            () = sleep(look) => {}
        }
        let entries = shared.running.all();
        let now = monotonic::now();
        soonest = entries.iter().filter_map(|entry| look_at(shared, entry, now)).min();
        if call.is_none() {
            let all = now >= next;
            if all {
                next = now + every;
            }
            call = extend(shared, &entries, all, every);
        }
    }
}

/// The answer of a call on its way; never, if there is none.
async fn answer(call: &mut Option<BoxFuture<'_, Vec<Answered>>>) -> Vec<Answered> {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}

/// A call that extends the leases of all attempts, or only of those with a checkpoint to write.
fn extend<'a>(
    shared: &'a Shared,
    entries: &[Arc<Entry>],
    all: bool,
    within: Duration,
) -> Option<BoxFuture<'a, Vec<Answered>>> {
    let mut lines = vec![Vec::new(); shared.parts.lines.len()];
    for entry in entries.iter().filter(|entry| !entry.is_decided()) {
        let progress = entry.take_checkpoint(true);
        if (all || progress.is_some())
            && let Some(line) = lines.get_mut(entry.line)
        {
            line.push((Arc::clone(entry), progress));
        }
    }
    let busy = shared.parts.lines.iter().zip(lines).filter(|(_, line)| !line.is_empty());
    let calls: Vec<_> = busy.map(|(line, entries)| beat_once(&line.queue, entries, within)).collect();
    (!calls.is_empty()).then(|| join_all(calls).boxed())
}

async fn beat_once(queue: &Queue, entries: Vec<(Arc<Entry>, Option<Json>)>, within: Duration) -> Answered {
    let beats = entries.iter().map(|(entry, progress)| {
        let beat = Heartbeat::new(&entry.task, LeaseLength::of(entry.lease));
        progress.clone().map_or(beat.clone(), |progress| beat.progress(progress))
    });
    let (sent, beats) = (monotonic::now(), beats.collect());
    let late = |_| Err(Error::new(ErrorKind::Unavailable, format!("no answer within {within:?}")));
    let answer = timeout(within, queue.heartbeat_batch(beats)).await.unwrap_or_else(late);
    (entries, sent, answer)
}

/// Takes the answer of a call; an error if it failed.
fn take((entries, sent, answer): Answered) -> Option<Error> {
    match answer {
        Ok(outcomes) => {
            for ((entry, _), outcome) in entries.iter().zip(outcomes) {
                match outcome {
                    // The second: the handler has settled it in a transaction of its own and is about to return.
                    HeartbeatOutcome::Extended(_) | HeartbeatOutcome::LeaseLost(LeaseLoss::AlreadySettled) => {
                        entry.extended(sent);
                    }
                    HeartbeatOutcome::LeaseLost(LeaseLoss::Cancelled) => entry.ask(CLEAN_UP),
                    HeartbeatOutcome::LeaseLost(loss) => lose(entry, &format!("{loss:?}")),
                }
            }
            None
        }
        Err(error) => {
            for (entry, progress) in entries {
                if let Some(progress) = progress {
                    entry.return_checkpoint(progress);
                }
            }
            Some(error)
        }
    }
}

/// Stops an attempt that has no lease any more. If it has handed in an outcome, the queue says what becomes of that.
fn lose(entry: &Entry, why: &str) {
    if entry.lose() {
        events::lease_lost(&entry.task, why);
        entry.ask(LEAVE);
    }
}

/// What time says about an attempt. Answers when it will say something else.
fn look_at(shared: &Shared, entry: &Arc<Entry>, now: Instant) -> Option<Instant> {
    let times = entry.times();
    if times.patience.is_some_and(|patience| now >= patience) {
        entry.abort();
    }
    if entry.is_decided() {
        return times.patience.filter(|patience| now < *patience);
    }
    // Asked, and then stopped, each a moment before anybody else can have the task (contract rule 18).
    let (ask, stop) = (times.safe - 2 * entry.margin(), times.safe - entry.margin());
    if now >= times.safe {
        lose(entry, "it could not be extended in time");
    } else if now >= ask {
        entry.ask(stop.saturating_duration_since(now));
    }
    if times.limit.is_some_and(|limit| now >= limit) {
        let error = "the attempt ran longer than its handler's timeout and was stopped".into();
        shared.settles.push(entry, Decision::Fail { error, retry: Retry::ByPolicy });
        entry.abort();
    }
    if let Some(blocked) = entry.blocks_longer_than(BLOCKING) {
        events::handler_blocks(&entry.task, blocked);
    }
    [Some(ask), Some(times.safe), times.limit, entry.times().patience]
        .into_iter()
        .flatten()
        .filter(|at| now < *at)
        .min()
}
