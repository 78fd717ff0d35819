//! Stats: counts and oldest ages, at a cost that does not grow with the backlog.

use std::ops::ControlFlow;

use super::keys::{self, QueueKeys, ScopeKeys};
use super::record;
use super::scope::read_head;
use crate::engine::View;
use crate::error::Result;
use crate::model::task::{StateKind, TaskState};
use crate::store::QueueStats;
use crate::time::Timestamp;

/// Different names and priorities that the search for the oldest ready task visits.
const GROUPS: usize = 1_000;

pub(crate) fn stats(view: &dyn View, queue: &QueueKeys) -> Result<QueueStats> {
    let head = read_head(view, queue)?.unwrap_or_default();
    Ok(QueueStats {
        scheduled: head.count(StateKind::Scheduled),
        ready: head.count(StateKind::Ready),
        in_flight: head.count(StateKind::InFlight),
        done: head.count(StateKind::Done),
        dead: head.count(StateKind::Dead),
        cancelled: head.count(StateKind::Cancelled),
        finished_bytes: head.finished_bytes,
        paused: head.paused,
        oldest_ready: oldest_ready(view, queue)?,
        next_deadline: first_instant(view, queue, b'f')?,
        next_due: first_instant(view, queue, b's')?,
    })
}

/// The instant of the first entry in a timed index.
pub(crate) fn first_instant(view: &dyn View, queue: &QueueKeys, kind: u8) -> Result<Option<Timestamp>> {
    let (from, mut first) = (queue.kind(kind), None);
    view.scan(&from, &keys::after(&from), &mut |key, _| {
        first = keys::instant_of(key);
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// Within one name and priority the first entry is the oldest, so one look for each pair is enough.
fn oldest_ready(view: &dyn View, queue: &QueueKeys) -> Result<Option<Timestamp>> {
    let all = queue.kind(b'r');
    let (mut from, until) = (all.clone(), keys::after(&all));
    let mut oldest: Option<Timestamp> = None;
    for _ in 0..GROUPS {
        let mut first = None;
        view.scan(&from, &until, &mut |key, _| {
            first = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        let Some(key) = first else { break };
        if let Some(id) = keys::id_of(&key)
            && let Ok(Some(task)) = record::read(view, queue, id)
            && let TaskState::Ready { since } = task.state
        {
            oldest = Some(oldest.map_or(since, |at| at.min(since)));
        }
        from = keys::after(key.get(..key.len().saturating_sub(8)).unwrap_or_default());
    }
    Ok(oldest)
}

/// The queues that have a head record: all in which a task was ever enqueued.
pub(crate) fn queues(view: &dyn View, scope: &ScopeKeys) -> Result<Vec<String>> {
    let all = scope.queues();
    // Behind the scope's own entry, whose queue name is empty.
    let (mut from, until) = ([all.as_slice(), &[0, 1]].concat(), keys::after(&all));
    let mut names = Vec::new();
    loop {
        let mut first = None;
        view.scan(&from, &until, &mut |key, _| {
            first = key.get(all.len()..).and_then(|tail| {
                let (len, rest) = tail.split_first_chunk::<2>()?;
                rest.get(..usize::from(u16::from_be_bytes(*len))).map(|name| String::from_utf8_lossy(name).into_owned())
            });
            ControlFlow::Break(())
        })?;
        let Some(name) = first else { return Ok(names) };
        from = keys::after(scope.queue(&name).topic());
        names.push(name);
    }
}
