//! Check and repair: every index entry and every long value has its record and the reverse, every live task has its
//! idempotency key, every other key has its end, and the counts are right.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::codec;
use super::head::Head;
use super::keys::{self, QueueKeys};
use super::record::{Slot, beside, body, has_beside};
use super::scope::{ScopeTxn, read_head};
use super::unique::{has_lost_key, is_orphan, read_unique};
use crate::engine::View;
use crate::error::{ErrorKind, Result};
use crate::model::task::{StateKind, Task, TaskId, TaskState};
use crate::store::CheckReport;

/// Problems that a report names; more are counted only by being there after the repair of these.
const NAMED: usize = 1_000;

/// What is wrong, in a form that repair can act on.
enum Problem {
    Damaged(TaskId),
    NoEntry { id: TaskId, index: Vec<u8> },
    StrayEntry(Vec<u8>),
    NoValue { id: TaskId, index: Vec<u8> },
    StrayValue(Vec<u8>),
    Counts,
    KeyWithoutTask(Vec<u8>),
    KeyWithoutEnd { key: Vec<u8>, end: Vec<u8> },
    NoKey(TaskId),
}

/// Looks at everything in the queue and names what does not fit.
pub(crate) fn check(view: &dyn View, queue: &QueueKeys) -> Result<CheckReport> {
    let (records, problems) = look(view, queue)?;
    let problems = problems.iter().take(NAMED).map(describe).collect();
    Ok(CheckReport { records, problems, repaired: 0 })
}

/// Does the same, and puts each thing right in the same commit.
pub(crate) fn repair(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys) -> Result<CheckReport> {
    let (records, found) = look(scope.txn, queue)?;
    let problems: Vec<String> = found.iter().take(NAMED).map(describe).collect();
    let repaired = found.len() as u64;
    for problem in found {
        match problem {
            Problem::Damaged(id) => {
                let nothing = queue.body(id, Slot::Damaged as u8);
                scope.set_aside(queue, &nothing, StateKind::Dead, id, "")?;
            }
            Problem::NoValue { id, index } => scope.set_aside(queue, &index, StateKind::Dead, id, "")?,
            Problem::NoEntry { index, .. } => {
                scope.txn.put(index, Vec::new());
                scope.txn.touch(queue.topic());
            }
            Problem::StrayEntry(key) | Problem::StrayValue(key) | Problem::KeyWithoutTask(key) => scope.txn.delete(key),
            Problem::KeyWithoutEnd { end, .. } => scope.txn.put(end, Vec::new()),
            Problem::NoKey(id) => {
                // Looked at anew: an earlier repair may have set the task aside, or given the key to an older one.
                if let Some(stored) = scope.load(queue, id)?
                    && has_lost_key(scope.txn, queue, &stored.task)?
                {
                    scope.restore_key(queue, &stored.task)?;
                }
            }
            Problem::Counts => {}
        }
    }
    // Counted again at the end: the repairs above changed what there is.
    let paused = scope.head(queue)?.paused;
    let mut counts = count(scope.txn, queue)?;
    counts.paused = paused;
    *scope.head(queue)? = counts;
    Ok(CheckReport { records, problems, repaired })
}

fn describe(problem: &Problem) -> String {
    match problem {
        Problem::Damaged(id) => format!("the record of task {id} is damaged"),
        Problem::NoEntry { id, .. } => format!("task {id} has no index entry, so it would never be served"),
        Problem::StrayEntry(key) => format!("an index entry has no such record: {}", key.escape_ascii()),
        Problem::NoValue { id, .. } => format!("a long value of task {id} is missing or damaged"),
        Problem::StrayValue(key) => format!("a long value belongs to no record: {}", key.escape_ascii()),
        Problem::Counts => "the queue's counts are not those of its records".to_owned(),
        Problem::KeyWithoutTask(key) => {
            format!("an idempotency key's entry is damaged or leads to no task: {}", key.escape_ascii())
        }
        Problem::KeyWithoutEnd { key, .. } => {
            format!("an idempotency key's entry would never end: {}", key.escape_ascii())
        }
        Problem::NoKey(id) => format!("task {id} has lost its idempotency key, so a second task could take it"),
    }
}

fn look(view: &dyn View, queue: &QueueKeys) -> Result<(u64, Vec<Problem>)> {
    let (mut records, mut problems, mut expected) = (0, Vec::new(), BTreeSet::new());
    let mut good = Vec::new();
    each(view, &queue.kind(b'p'), |key, value| {
        records += 1;
        let Some(id) = keys::id_of(key) else { return };
        match codec::decode(id, value) {
            Ok(task) => good.push(task),
            Err(_) => problems.push(Problem::Damaged(id)),
        }
    })?;
    problems.extend(wrong_keys(view, queue)?);
    problems.extend(stray_values(view, queue, &good)?);
    for task in &good {
        let index = queue.index(task);
        if view.get(&index)?.is_none() {
            problems.push(Problem::NoEntry { id: task.id, index: index.clone() });
        }
        if !values_are_there(view, queue, task)? {
            problems.push(Problem::NoValue { id: task.id, index: index.clone() });
        }
        if has_lost_key(view, queue, task)? {
            problems.push(Problem::NoKey(task.id));
        }
        expected.insert(index);
    }
    for kind in [b's', b'r', b'f', b'd'] {
        each(view, &queue.kind(kind), |key, _| {
            if !expected.contains(key) {
                problems.push(Problem::StrayEntry(key.to_vec()));
            }
        })?;
    }
    let (mut are, says) = (tally(&good), read_head(view, queue)?.unwrap_or_default());
    are.paused = says.paused;
    if are != says {
        problems.push(Problem::Counts);
    }
    Ok((records, problems))
}

/// Entries of idempotency keys that nothing would ever end.
fn wrong_keys(view: &dyn View, queue: &QueueKeys) -> Result<Vec<Problem>> {
    let (mut entries, text_at) = (Vec::new(), queue.kind(b'k').len());
    each(view, &queue.kind(b'k'), |key, value| entries.push((key.to_vec(), read_unique(value))))?;
    let mut problems = Vec::new();
    for (key, entry) in entries {
        let Ok(entry) = entry else {
            problems.push(Problem::KeyWithoutTask(key));
            continue;
        };
        if is_orphan(view, queue, &entry)? {
            problems.push(Problem::KeyWithoutTask(key));
        } else if let Some(at) = entry.expires {
            let text = String::from_utf8_lossy(key.get(text_at..).unwrap_or_default());
            let end = queue.unique_end(at, &text);
            if view.get(&end)?.is_none() {
                problems.push(Problem::KeyWithoutEnd { key, end });
            }
        }
    }
    Ok(problems)
}

/// Long values without a record that has them. Those of a damaged record stay with what is left of it.
fn stray_values(view: &dyn View, queue: &QueueKeys, good: &[Task]) -> Result<Vec<Problem>> {
    let mut values = Vec::new();
    each(view, &queue.kind(b'b'), |key, _| values.push(key.to_vec()))?;
    let mut problems = Vec::new();
    for key in values {
        let Some((slot, id)) = key.split_last().and_then(|(slot, rest)| Some((*slot, keys::id_of(rest)?))) else {
            continue;
        };
        let stray = match good.binary_search_by_key(&id, |task| task.id).ok().and_then(|at| good.get(at)) {
            Some(task) => !has_beside(task, slot),
            None => view.get(&queue.primary(id))?.is_none(),
        };
        if stray {
            problems.push(Problem::StrayValue(key));
        }
    }
    Ok(problems)
}

fn count(view: &dyn View, queue: &QueueKeys) -> Result<Head> {
    let mut good = Vec::new();
    each(view, &queue.kind(b'p'), |key, value| {
        good.extend(keys::id_of(key).and_then(|id| codec::decode(id, value).ok()));
    })?;
    Ok(tally(&good))
}

fn tally(tasks: &[Task]) -> Head {
    let mut head = Head::default();
    for task in tasks {
        head.add(task.state.kind(), codec::encode(task).len() as u64 + beside(task));
    }
    head
}

fn values_are_there(view: &dyn View, queue: &QueueKeys, task: &Task) -> Result<bool> {
    if matches!(task.state, TaskState::Dead { reason: crate::DeadReason::Damaged, .. }) {
        return Ok(true);
    }
    for (value, slot) in
        [(&task.payload, Slot::Payload), (&task.progress, Slot::Progress), (&task.result, Slot::Result)]
    {
        match body(view, queue, task.id, value, slot) {
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            other => other?,
        };
    }
    Ok(true)
}

/// Visits the entries in order, and looks each of them up by its key too: a search tree whose branches are damaged still lists what
/// it cannot find, and whoever asks for it is told that there is nothing.
fn each(view: &dyn View, prefix: &[u8], mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
    let mut hidden = None;
    view.scan(prefix, &keys::after(prefix), &mut |key, value| {
        match view.get(key) {
            Ok(Some(found)) if found == value => visit(key, value),
            Ok(_) => hidden = Some(Err(codec::hidden(key))),
            Err(error) => hidden = Some(Err(error)),
        }
        if hidden.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    hidden.unwrap_or(Ok(()))
}
