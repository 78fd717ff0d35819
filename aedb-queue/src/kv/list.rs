//! List: pages of tasks along an index, with cursors that stay good while tasks move.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::get::full;
use super::keys::{self, QueueKeys};
use super::record;
use crate::engine::View;
use crate::error::{Error, ErrorKind, Result};
use crate::model::limits;
use crate::model::task::{StateKind, Task, TaskId};
use crate::store::{Cursor, Filter, Page, TaskRecord};

/// Entries that one page looks at, so that a rare name does not make a call endless.
const LOOKS: usize = 10_000;

pub(crate) fn list(view: &dyn View, queue: &QueueKeys, name: &Arc<str>, filter: &Filter) -> Result<Page> {
    let prefix = prefix(queue, filter);
    let limit = filter.limit.unwrap_or(limits::PAGE).min(limits::PAGE);
    let from = match &filter.after {
        None => first(queue, filter, &prefix),
        Some(Cursor(tail)) if tail.len() <= prefix.len() + limits::NAME_BYTES + 32 => {
            [&prefix, tail.as_slice(), &[0]].concat()
        }
        Some(_) => return Err(Error::invalid("not a cursor of this list")),
    };
    let mut entries = Vec::new();
    view.scan(&from, &keys::after(&prefix), &mut |key, _| {
        entries.push(key.to_vec());
        if entries.len() < LOOKS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let (mut tasks, mut last, all) = (Vec::new(), None, entries.len() < LOOKS);
    for key in entries {
        if tasks.len() == limit {
            return Ok(Page { tasks, next: last });
        }
        tasks.extend(matching(view, queue, name, filter, &key)?);
        last = key.get(prefix.len()..).map(|tail| Cursor(tail.to_vec()));
    }
    Ok(Page { tasks, next: if all { None } else { last } })
}

/// Where the first page begins: a task's id is never below the microsecond of its enqueue.
fn first(queue: &QueueKeys, filter: &Filter, prefix: &[u8]) -> Vec<u8> {
    match (filter.state, filter.enqueued_from) {
        (None, Some(from)) => queue.primary(TaskId::from_u64(from.as_micros())),
        _ => prefix.to_vec(),
    }
}

/// The index that holds exactly the tasks of a state, or all records.
fn prefix(queue: &QueueKeys, filter: &Filter) -> Vec<u8> {
    match (filter.state, &filter.name) {
        (None, _) => queue.kind(b'p'),
        (Some(StateKind::Scheduled), _) => queue.kind(b's'),
        (Some(StateKind::Ready), Some(name)) => queue.ready_name(name),
        (Some(StateKind::Ready), None) => queue.kind(b'r'),
        (Some(StateKind::InFlight), _) => queue.kind(b'f'),
        (Some(state), _) => queue.finished_kind(state),
    }
}

/// The record behind an entry, if the filter wants it. One that is damaged is left for `check` to name, and so is an entry that is not
/// the record's own.
fn matching(
    view: &dyn View,
    queue: &QueueKeys,
    name: &Arc<str>,
    filter: &Filter,
    key: &[u8],
) -> Result<Option<TaskRecord>> {
    let wanted = |task: &Task| {
        (filter.state.is_none() || queue.index(task) == key)
            && filter.name.as_ref().is_none_or(|name| *name == task.name)
            && filter.enqueued_from.is_none_or(|from| task.enqueued >= from)
            && filter.enqueued_until.is_none_or(|until| task.enqueued < until)
    };
    let Some(id) = keys::id_of(key) else { return Ok(None) };
    let found = match record::read(view, queue, id) {
        Ok(Some(task)) if wanted(&task) => full(view, queue, name, task),
        Ok(_) => return Ok(None),
        Err(error) => Err(error),
    };
    match found {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        found => found.map(Some),
    }
}
