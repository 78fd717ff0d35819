//! The state machine: one total function from a record, an event and an instant to what becomes of it.
//!
//! | event | Scheduled | Ready | InFlight, token right | InFlight, token wrong | Done, Dead, Cancelled |
//! |---|---|---|---|---|---|
//! | promote (due) | Ready | - | - | - | - |
//! | claim | - | InFlight, token grows | - | - | - |
//! | heartbeat | lost | lost | deadline only grows | lost | lost |
//! | complete | lost | lost | Done | lost | lost |
//! | fail | lost | lost | Ready, Scheduled, or Dead when spent or fatal | lost | lost |
//! | snooze | lost | lost | Ready or Scheduled, nothing charged | lost | lost |
//! | release | lost | lost | Ready, nothing charged | lost | lost |
//! | discard | lost | lost | Cancelled, its reason kept, nothing charged | lost | lost |
//! | continue | lost | lost | Ready or Scheduled, with fresh budgets | lost | lost |
//! | reclaim (deadline passed) | - | - | Ready, or Dead after too many lost leases | same | - |
//! | cancel | Cancelled | Cancelled | Cancelled | Cancelled | - |
//! | amend | Scheduled, or Dead when spent | Ready, or Dead when spent | InFlight | same | - |
//! | retry by hand | Ready | - | - | - | Ready if Dead or Cancelled, else - |
//!
//! "-" refuses and changes nothing; "lost" answers [`LeaseLoss`] and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::model::backoff::Backoff;
use crate::model::limits::FAILURES_KEPT;
use crate::model::task::{DeadReason, Failure, FencingToken, Task, TaskState};
use crate::time::Timestamp;

/// Why a write under a lease was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// The lease ran out and the task is waiting or running again.
    TakenOver,
    /// This very token has settled the task before; the earlier call was applied.
    AlreadySettled,
    /// The task was cancelled.
    Cancelled,
    /// The record is gone.
    Gone,
}

/// How a failed attempt is to be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retry {
    /// By the record's backoff.
    #[default]
    ByPolicy,
    /// At an instant, instead of the backoff. The failure is charged all the same.
    At(Timestamp),
    /// Never: the task is dead at once.
    Fatal,
}

/// What a worker decided about the task it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Complete,
    Fail { error: Arc<str>, retry: Retry },
    Snooze { until: Timestamp },
    Release,
    Discard { reason: Arc<str> },
    Continue { until: Timestamp },
}

/// What an amendment says about a task; `None` leaves a thing as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Terms {
    pub(crate) priority: Option<u64>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
}

/// Whether the token still holds the task.
pub(crate) fn holds(task: &Task, token: FencingToken) -> Result<(), LeaseLoss> {
    match task.state {
        TaskState::Cancelled { .. } if task.token == token && task.discarded().is_some() => {
            Err(LeaseLoss::AlreadySettled)
        }
        TaskState::Cancelled { .. } => Err(LeaseLoss::Cancelled),
        _ if task.token != token => Err(LeaseLoss::TakenOver),
        TaskState::InFlight { .. } => Ok(()),
        TaskState::Done { .. } => Err(LeaseLoss::AlreadySettled),
        // A waiting or dead record under our own token: we failed, snoozed or released it, or a reclaim did for us.
        _ => Err(LeaseLoss::TakenOver),
    }
}

/// Applies what the holder of `token` decided.
pub(crate) fn settle(task: &mut Task, token: FencingToken, verdict: &Verdict, now: Timestamp) -> Result<(), LeaseLoss> {
    holds(task, token)?;
    task.updated = now;
    match verdict {
        Verdict::Complete => task.state = TaskState::Done { at: now },
        Verdict::Fail { error, retry } => fail(task, error, *retry, now),
        Verdict::Snooze { until } => {
            task.counters.snoozes = task.counters.snoozes.saturating_add(1);
            uncharge(task);
            task.state = waiting(*until, now);
        }
        Verdict::Release => {
            uncharge(task);
            task.state = TaskState::Ready { since: now };
        }
        Verdict::Discard { reason } => {
            remember(task, reason, now);
            task.state = TaskState::Cancelled { at: now };
        }
        Verdict::Continue { until } => {
            refresh(task);
            task.state = waiting(*until, now);
        }
    }
    Ok(())
}

fn fail(task: &mut Task, error: &Arc<str>, retry: Retry, now: Timestamp) {
    task.counters.failures = task.counters.failures.saturating_add(1);
    remember(task, error, now);
    task.state = match retry {
        Retry::Fatal => TaskState::Dead { at: now, reason: DeadReason::Fatal },
        _ if is_spent(task) => TaskState::Dead { at: now, reason: DeadReason::AttemptsSpent },
        Retry::At(due) => waiting(due, now),
        Retry::ByPolicy => waiting(task.policy.backoff.due(now, task.counters.failures, task.id.as_u64()), now),
    };
}

/// Adds a text to those that the record keeps.
fn remember(task: &mut Task, text: &Arc<str>, now: Timestamp) {
    if task.failures.len() >= FAILURES_KEPT {
        task.failures.remove(0);
    }
    task.failures.push(Failure { at: now, attempt: task.counters.attempts, error: Arc::clone(text) });
}

/// Gives both budgets back in full.
fn refresh(task: &mut Task) {
    task.counters.failures = 0;
    task.counters.lost_leases = 0;
}

fn is_spent(task: &Task) -> bool {
    spends(task.counters.failures, task.policy.max_attempts)
}

/// Whether so many failures are all that a task may have.
pub(crate) fn spends(failures: u32, max_attempts: u32) -> bool {
    failures >= max_attempts
}

/// Takes back the attempt that the claim counted.
fn uncharge(task: &mut Task) {
    task.counters.attempts = task.counters.attempts.saturating_sub(1);
}

/// The state of a task that is due at an instant: a past one means ready (contract rule 8).
pub(crate) fn waiting(due: Timestamp, now: Timestamp) -> TaskState {
    if due <= now { TaskState::Ready { since: now } } else { TaskState::Scheduled { due } }
}

/// Moves a due task to ready. False if it is not scheduled or not due.
pub(crate) fn promote(task: &mut Task, now: Timestamp) -> bool {
    match task.state {
        TaskState::Scheduled { due } if due <= now => {
            task.state = TaskState::Ready { since: due };
            true
        }
        _ => false,
    }
}

/// Hands a ready task to an owner. False if it is not ready; a task whose budget is spent becomes dead instead.
pub(crate) fn claim(task: &mut Task, owner: &Arc<str>, lease: Duration, floor: FencingToken, now: Timestamp) -> bool {
    if !matches!(task.state, TaskState::Ready { .. }) {
        return false;
    }
    task.updated = now;
    if is_spent(task) {
        task.state = TaskState::Dead { at: now, reason: DeadReason::AttemptsSpent };
        return false;
    }
    task.token = task.token.next(floor);
    task.counters.attempts = task.counters.attempts.saturating_add(1);
    task.counters.deliveries = task.counters.deliveries.saturating_add(1);
    task.state = TaskState::InFlight { owner: Arc::clone(owner), deadline: now.saturating_add(lease), claimed: now };
    true
}

/// Extends the holder's lease; it never gets shorter (contract rule 12). Answers the deadline.
pub(crate) fn heartbeat(
    task: &mut Task,
    token: FencingToken,
    lease: Duration,
    now: Timestamp,
) -> Result<Timestamp, LeaseLoss> {
    holds(task, token)?;
    task.updated = now;
    let TaskState::InFlight { deadline, .. } = &mut task.state else { return Err(LeaseLoss::TakenOver) };
    *deadline = now.saturating_add(lease).max(*deadline);
    Ok(*deadline)
}

/// Takes a task back whose lease ran out: straight to ready, no backoff, no failure (contract rule 6). False if it did not.
pub(crate) fn reclaim(task: &mut Task, now: Timestamp) -> bool {
    match task.state {
        TaskState::InFlight { deadline, .. } if deadline <= now => {}
        _ => return false,
    }
    task.updated = now;
    task.counters.lost_leases = task.counters.lost_leases.saturating_add(1);
    uncharge(task);
    task.state = if task.counters.lost_leases >= task.policy.max_lost_leases {
        TaskState::Dead { at: now, reason: DeadReason::LeasesLost }
    } else {
        TaskState::Ready { since: now }
    };
    true
}

/// Cancels a task that has not finished. False if it has.
pub(crate) fn cancel(task: &mut Task, now: Timestamp) -> bool {
    if task.state.finished().is_some() {
        return false;
    }
    task.updated = now;
    task.state = TaskState::Cancelled { at: now };
    true
}

/// Changes the terms of a task that has not finished; its state, its place among equals and its token stay. False if it has.
///
/// One that waits and has failed as often as it may by now is dead at once; for one in flight its next failure decides.
pub(crate) fn amend(task: &mut Task, terms: &Terms, now: Timestamp) -> bool {
    if task.state.finished().is_some() {
        return false;
    }
    task.updated = now;
    task.priority = terms.priority.unwrap_or(task.priority);
    task.policy.max_attempts = terms.max_attempts.unwrap_or(task.policy.max_attempts);
    task.policy.backoff = terms.backoff.unwrap_or(task.policy.backoff);
    if is_spent(task) && !matches!(task.state, TaskState::InFlight { .. }) {
        task.state = TaskState::Dead { at: now, reason: DeadReason::AttemptsSpent };
    }
    true
}

/// Makes a dead, cancelled or scheduled task ready with a fresh budget; its token and history stay. False for the others.
pub(crate) fn retry(task: &mut Task, now: Timestamp) -> bool {
    match task.state {
        TaskState::Dead { reason, .. } if reason != DeadReason::Damaged => {}
        TaskState::Cancelled { .. } | TaskState::Scheduled { .. } => {}
        _ => return false,
    }
    task.updated = now;
    refresh(task);
    task.state = TaskState::Ready { since: now };
    true
}

#[cfg(test)]
mod tests;
