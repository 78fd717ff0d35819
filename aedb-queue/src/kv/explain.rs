//! Explain: why a task is not running.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::keys::{self, QueueKeys};
use super::record;
use super::scope::read_head;
use crate::engine::View;
use crate::error::{Error, Result};
use crate::model::task::{Task, TaskId, TaskState};
use crate::store::Explanation;

/// Up to how many tasks ahead are counted.
const AHEAD: u64 = 10_000;

/// `is_unserved` says whether no live worker knows a task's name.
pub(crate) fn explain(
    view: &dyn View,
    queue: &QueueKeys,
    id: TaskId,
    is_unserved: impl Fn(&str) -> Result<bool>,
) -> Result<Explanation> {
    let Some(task) = record::read(view, queue, id)? else { return Ok(Explanation::Unknown) };
    // A task that was continued has a fresh start: it does not wait because of what failed before.
    let last = task.failures.last().filter(|_| task.counters.failures > 0).cloned();
    let unserved = || Ok::<_, Error>(is_unserved(&task.name)?.then(|| Arc::clone(&task.name)));
    Ok(match &task.state {
        TaskState::InFlight { owner, deadline, .. } => Explanation::Leased { owner: owner.clone(), until: *deadline },
        TaskState::Done { at } => Explanation::Done { at: *at },
        TaskState::Dead { at, reason } => Explanation::Dead { at: *at, reason: *reason, last },
        TaskState::Cancelled { at } => match task.discarded() {
            Some(said) => Explanation::Discarded { at: *at, reason: Arc::clone(&said.error) },
            None => Explanation::Cancelled { at: *at },
        },
        TaskState::Scheduled { due } => Explanation::NotDue { due: *due, after: last, unserved: unserved()? },
        TaskState::Ready { .. } => match read_head(view, queue)?.and_then(|head| head.paused) {
            Some(since) => Explanation::Paused { since },
            None => Explanation::Waiting { ahead: ahead(view, queue, &task)?, unserved: unserved()? },
        },
    })
}

/// Tasks of any name that a claim would serve first.
fn ahead(view: &dyn View, queue: &QueueKeys, task: &Task) -> Result<u64> {
    let own = queue.index(task);
    let rank = own.get(own.len().saturating_sub(16)..).unwrap_or_default();
    let (all, mut ahead) = (queue.kind(b'r'), 0);
    let (mut from, until) = (all.clone(), keys::after(&all));
    // A name's line is in claim order: count until it passes our place, then go to the next name.
    while ahead < AHEAD {
        let mut behind = None;
        view.scan(&from, &until, &mut |key, _| {
            let (line, place) = key.split_at_checked(key.len().saturating_sub(16)).unwrap_or_default();
            if place >= rank || ahead == AHEAD {
                behind = Some(keys::after(line));
                return ControlFlow::Break(());
            }
            ahead += 1;
            ControlFlow::Continue(())
        })?;
        match behind {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(ahead)
}
