//! Sweep: move what is due, end keys, remove what is finished; in bounded steps, each safe to repeat.

use std::ops::ControlFlow;

use super::keys::{self, QueueKeys};
use super::legacy;
use super::scope::ScopeTxn;
use super::stats::first_instant;
use crate::engine::View;
use crate::error::Result;
use crate::model::task::{StateKind, Task, TaskId};
use crate::model::transition;
use crate::store::{RetentionLimits, SweepReport};
use crate::time::Timestamp;

/// How many due tasks and lost leases one claim moves before it serves; beyond it the sweep works ahead (contract rule 8).
pub(crate) const CLAIM_STEPS: usize = 10_000;

pub(crate) fn sweep(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, limits: RetentionLimits) -> Result<SweepReport> {
    let mut report = SweepReport::default();
    let mut left = limits.steps;
    let mut spend = |done: u64| {
        left = left.saturating_sub(usize::try_from(done).unwrap_or(usize::MAX));
        left
    };
    let most = scope.txn.most_changes() / 16;
    if !legacy::adopt(scope, queue, limits.steps.min(most))? {
        report.more = true;
        return Ok(report);
    }
    report.reclaimed = reclaim(scope, queue, spend(0))?;
    report.promoted = promote(scope, queue, spend(report.reclaimed))?;
    report.keys_expired = expire_keys(scope, queue, spend(report.promoted))?;
    report.pruned = prune(scope, queue, limits, spend(report.keys_expired))?;
    report.died = deaths(scope, queue, limits.steps)?;
    report.more = spend(report.pruned) == 0 || report.died.len() == limits.steps;
    Ok(report)
}

/// The deaths that nobody was told of, in the order of enqueue. Whoever gets them is the only one who does.
fn deaths(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, max: usize) -> Result<Vec<TaskId>> {
    let prefix = queue.kind(b'm');
    let found = collect(scope.txn, &prefix, &keys::after(&prefix), max)?;
    let died = found.iter().filter_map(|key| keys::id_of(key)).collect();
    found.into_iter().for_each(|key| scope.txn.delete(key));
    Ok(died)
}

/// When something becomes due by itself next.
pub(crate) fn next_due(view: &dyn View, queue: &QueueKeys) -> Result<Option<Timestamp>> {
    let (due, deadline) = (first_instant(view, queue, b's')?, first_instant(view, queue, b'f')?);
    Ok(match (due, deadline) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    })
}

/// Takes back tasks whose lease ran out (contract rules 6 and 7).
pub(crate) fn reclaim(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, max: usize) -> Result<u64> {
    move_due(scope, queue, (b'f', StateKind::InFlight), max, transition::reclaim)
}

/// Makes scheduled tasks ready whose instant has come.
pub(crate) fn promote(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, max: usize) -> Result<u64> {
    move_due(scope, queue, (b's', StateKind::Scheduled), max, transition::promote)
}

fn move_due(
    scope: &mut ScopeTxn<'_, '_>,
    queue: &QueueKeys,
    (kind, state): (u8, StateKind),
    max: usize,
    step: impl Fn(&mut Task, Timestamp) -> bool,
) -> Result<u64> {
    let due = due(scope.txn, queue, kind, scope.now, max)?;
    let count = due.len() as u64;
    for index in due {
        let Some(mut stored) = scope.load_by(queue, &index, state, "")? else { continue };
        if step(&mut stored.task, scope.now) {
            scope.save_unasked(queue, &stored)?;
        }
    }
    Ok(count)
}

/// The entries of a timed index whose instant has come.
fn due(view: &dyn View, queue: &QueueKeys, kind: u8, now: Timestamp, max: usize) -> Result<Vec<Vec<u8>>> {
    let from = queue.kind(kind);
    let until = [from.as_slice(), &now.as_micros().saturating_add(1).to_be_bytes()].concat();
    collect(view, &from, &until, max)
}

fn collect(view: &dyn View, from: &[u8], until: &[u8], max: usize) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    if max > 0 {
        view.scan(from, until, &mut |key, _| {
            found.push(key.to_vec());
            if found.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(found)
}

/// Ends idempotency keys whose window has passed.
fn expire_keys(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, max: usize) -> Result<u64> {
    let ended = due(scope.txn, queue, b'x', scope.now, max)?;
    let count = ended.len() as u64;
    let text_at = queue.kind(b'x').len() + 8;
    for end in ended {
        let text = String::from_utf8_lossy(end.get(text_at..).unwrap_or_default()).into_owned();
        // The key may have a new task since; then only this old end goes.
        if scope.unique(queue, &text)?.is_some_and(|entry| entry.expires.is_some_and(|at| at <= scope.now)) {
            scope.txn.delete(queue.unique(&text));
        }
        scope.txn.delete(end);
    }
    Ok(count)
}

/// Removes finished records past their age, then, while there are too many or too large ones, those that end first.
fn prune(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, limits: RetentionLimits, max: usize) -> Result<u64> {
    let mut pruned = 0;
    for state in [StateKind::Done, StateKind::Cancelled, StateKind::Dead] {
        let prefix = queue.finished_kind(state);
        let left = max.saturating_sub(usize::try_from(pruned).unwrap_or(usize::MAX));
        for index in collect(scope.txn, &prefix, &keys::after(&prefix), left)? {
            let aged = keys::instant_of(&index).is_none_or(|at| at <= scope.now);
            let head = *scope.head(queue)?;
            if !aged && head.finished() <= limits.records && head.finished_bytes <= limits.bytes {
                break;
            }
            let Some(id) = keys::id_of(&index) else { continue };
            match scope.load(queue, id)? {
                Some(stored) if stored.is_at(&index) => scope.remove(queue, &stored, false)?,
                Some(_) => scope.txn.delete(index),
                None => scope.remove_damaged(queue, index, state, id)?,
            }
            pruned += 1;
        }
    }
    Ok(pruned)
}
