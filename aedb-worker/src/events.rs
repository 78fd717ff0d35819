//! Every span, event and metric of a worker, with its name: they are part of the interface.
//!
//! Spans and events have the target `aedb_worker`. At the default level (info and above) a worker is silent while all goes
//! well; payloads and results are never written.
//!
//! | name | level | when |
//! |---|---|---|
//! | span `attempt` | info | around a handler; fields `queue`, `task`, `id`, `attempt`, `traceparent` |
//! | `attempt.start` | debug | a handler starts |
//! | `attempt.finish` | debug | an outcome is durable; fields `outcome`, `ms` |
//! | `attempt.fail` | warn | a failure is durable; field `error` |
//! | `task.dead` | error | a task has died |
//! | `lease.lost` | warn | an attempt was stopped because its lease was lost, or its outcome was refused |
//! | `handler.blocks` | warn | a handler has blocked its thread for over a second |
//! | `store.away` | warn | a call failed and is tried again; the first of a row and each tenth |
//! | `service.panic` | error | a part of the worker panicked and is started again |
//! | `event.undelivered` | warn | an outbox's event failed; field `error` |
//! | `key.parked` | error | an event has spent its budget, and its key is parked |
//! | `lane.lost` | warn | a dispatcher's lane was taken over; nothing was recorded |
//! | `worker.start`, `worker.stop` | debug | |
//!
//! Metrics, with the feature `metrics`; all but the worker's own have the labels `queue` and `task`, depths only `queue`:
//!
//! | name | kind | what |
//! |---|---|---|
//! | `aedb_claimed_total` | counter | tasks that were handed to this worker |
//! | `aedb_finished_total` | counter | outcomes, with the label `outcome`: done, failed, dead, snoozed, released, discarded, continued |
//! | `aedb_lease_lost_total` | counter | attempts whose lease was lost |
//! | `aedb_wait_seconds` | histogram | from enqueue to the handler's start |
//! | `aedb_run_seconds` | histogram | from the claim to the durable outcome |
//! | `aedb_in_flight` | gauge | attempts that this worker holds |
//! | `aedb_queue_depth` | gauge | tasks of a queue, with the label `state` |
//! | `aedb_oldest_ready_seconds` | gauge | how long the longest waiting task has been ready |
//! | `aedb_outbox_delivered_total`, `_retried_total`, `_parked_total` | counter | events of a topic, with the label `topic` |
//! | `aedb_outbox_lag_seconds` | gauge | the age of the oldest event that was just delivered, with the label `topic` |

use std::time::Duration;

use aedb_queue::{ClaimedTask, Decision, Error, QueueStats, Timestamp};
use tracing::{Span, debug, error, info_span, warn};

use crate::outbox::EventId;

#[cfg(feature = "metrics")]
use metrics::{counter, gauge, histogram};

const TARGET: &str = "aedb_worker";

/// The span around a handler.
pub(crate) fn attempt_span(task: &ClaimedTask) -> Span {
    let traceparent = task.metadata.iter().find(|(name, _)| &**name == TRACEPARENT).map(|(_, value)| &**value);
    info_span!(
        target: TARGET,
        "attempt",
        queue = &*task.queue,
        task = &*task.name,
        id = task.id.as_u64(),
        attempt = task.counters.attempts,
        traceparent,
    )
}

/// The metadata name of a W3C trace context. Follow-ups inherit it.
pub(crate) const TRACEPARENT: &str = "traceparent";

pub(crate) fn worker_started(owner: &str) {
    debug!(target: TARGET, owner, "worker.start");
}

pub(crate) fn worker_stopped(owner: &str) {
    debug!(target: TARGET, owner, "worker.stop");
}

pub(crate) fn claimed(task: &ClaimedTask) {
    let _ = task;
    #[cfg(feature = "metrics")]
    counter!("aedb_claimed_total", "queue" => text(&task.queue), "task" => text(&task.name)).increment(1);
}

pub(crate) fn in_flight(count: usize) {
    let _ = count;
    #[cfg(feature = "metrics")]
    gauge!("aedb_in_flight").set(number(count as u64));
}

pub(crate) fn started(task: &ClaimedTask, now: Timestamp) {
    let wait = now.saturating_since(task.enqueued);
    debug!(target: TARGET, task = &*task.name, id = task.id.as_u64(), wait_ms = millis(wait), "attempt.start");
    #[cfg(feature = "metrics")]
    histogram!("aedb_wait_seconds", "queue" => text(&task.queue), "task" => text(&task.name))
        .record(wait.as_secs_f64());
}

/// An outcome is durable.
pub(crate) fn finished(task: &ClaimedTask, decision: &Decision, dead: bool, took: Duration) {
    let outcome = if dead { "dead" } else { outcome(decision) };
    let id = task.id.as_u64();
    match decision {
        Decision::Fail { error, .. } if dead => {
            error!(target: TARGET, task = &*task.name, id, error = %error.escape_debug(), "task.dead");
        }
        Decision::Fail { error, .. } => {
            let attempt = task.counters.attempts;
            warn!(target: TARGET, task = &*task.name, id, attempt, error = %error.escape_debug(), "attempt.fail");
        }
        _ => debug!(target: TARGET, task = &*task.name, id, outcome, ms = millis(took), "attempt.finish"),
    }
    #[cfg(feature = "metrics")]
    {
        let (queue, name) = (text(&task.queue), text(&task.name));
        counter!("aedb_finished_total", "queue" => queue.clone(), "task" => name.clone(), "outcome" => outcome)
            .increment(1);
        histogram!("aedb_run_seconds", "queue" => queue, "task" => name).record(took.as_secs_f64());
    }
}

/// A word for each decision.
fn outcome(decision: &Decision) -> &'static str {
    match decision {
        Decision::Complete(_) => "done",
        Decision::Fail { .. } => "failed",
        Decision::Snooze(_) => "snoozed",
        Decision::Release => "released",
        Decision::Discard { .. } => "discarded",
        Decision::Continue { .. } => "continued",
        _ => "other",
    }
}

pub(crate) fn lease_lost(task: &ClaimedTask, why: &str) {
    warn!(target: TARGET, task = &*task.name, id = task.id.as_u64(), token = task.token.as_u64(), why, "lease.lost");
    #[cfg(feature = "metrics")]
    counter!("aedb_lease_lost_total", "queue" => text(&task.queue), "task" => text(&task.name)).increment(1);
}

pub(crate) fn handler_blocks(task: &ClaimedTask, blocked: Duration) {
    warn!(
        target: TARGET,
        task = &*task.name,
        id = task.id.as_u64(),
        ms = millis(blocked),
        "handler.blocks: it holds its thread without awaiting; make it a blocking handler"
    );
}

/// A call failed for the `row`th time in a row.
pub(crate) fn store_away(what: &str, row: u32, cause: &Error) {
    if row == 1 || row.is_multiple_of(10) {
        warn!(target: TARGET, what, row, error = %cause, "store.away: trying again");
    }
}

pub(crate) fn service_panicked(service: &str, panic: &str, row: u32) {
    error!(target: TARGET, service, row, panic, "service.panic");
}

pub(crate) fn depth(queue: &str, stats: &QueueStats, now: Timestamp) {
    let _ = (queue, stats, now);
    #[cfg(feature = "metrics")]
    {
        let states = [("scheduled", stats.scheduled), ("ready", stats.ready), ("in_flight", stats.in_flight)];
        for (state, count) in states.into_iter().chain([("dead", stats.dead)]) {
            gauge!("aedb_queue_depth", "queue" => text(queue), "state" => state).set(number(count));
        }
        let oldest = stats.oldest_ready.map_or(Duration::ZERO, |since| now.saturating_since(since));
        gauge!("aedb_oldest_ready_seconds", "queue" => text(queue)).set(oldest.as_secs_f64());
    }
}

/// Events of a topic were delivered.
pub(crate) fn delivered(topic: &str, count: u64, lag: Duration) {
    let _ = (topic, count, lag);
    #[cfg(feature = "metrics")]
    {
        counter!("aedb_outbox_delivered_total", "topic" => text(topic)).increment(count);
        gauge!("aedb_outbox_lag_seconds", "topic" => text(topic)).set(lag.as_secs_f64());
    }
}

/// An event could not be delivered.
pub(crate) fn undelivered(topic: &str, key: &str, id: EventId, cause: &str, parked: bool) {
    let (id, cause) = (id.as_u64(), cause.escape_debug());
    if parked {
        error!(target: TARGET, topic, key, id, error = %cause, "key.parked");
    } else {
        warn!(target: TARGET, topic, key, id, error = %cause, "event.undelivered");
    }
    #[cfg(feature = "metrics")]
    if parked {
        counter!("aedb_outbox_parked_total", "topic" => text(topic)).increment(1);
    } else {
        counter!("aedb_outbox_retried_total", "topic" => text(topic)).increment(1);
    }
}

pub(crate) fn lane_lost(topic: &str, lane: u16) {
    warn!(target: TARGET, topic, lane, "lane.lost: nothing was recorded");
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(feature = "metrics")]
fn text(name: &str) -> String {
    name.to_owned()
}

#[cfg(feature = "metrics")]
#[expect(clippy::cast_precision_loss, reason = "gauges are floats; counts over 2^53 do not occur")]
fn number(count: u64) -> f64 {
    count as f64
}
