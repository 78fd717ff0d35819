//! Enqueue: tasks and effects in one commit.

use super::app_keys;
use super::keys::QueueKeys;
use super::record::Slot;
use super::scope::ScopeTxn;
use super::unique::{UniqueEntry, fingerprint};
use crate::error::Result;
use crate::model::task::{Body, Counters, FencingToken, Task};
use crate::model::transition::waiting;
use crate::store::{Effects, EnqueueOutcome, NewTask};

/// Enqueues tasks; each whose idempotency key is taken is answered with the task that has it (contract rule 14).
pub(crate) fn enqueue(
    scope: &mut ScopeTxn<'_, '_>,
    queue: &QueueKeys,
    tasks: Vec<NewTask>,
    effects: Effects,
) -> Result<Vec<EnqueueOutcome>> {
    app_keys::apply(scope, effects)?;
    tasks.into_iter().map(|task| one(scope, queue, task)).collect()
}

/// Enqueues one task.
pub(crate) fn one(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, new: NewTask) -> Result<EnqueueOutcome> {
    let print = if new.key.is_some() { fingerprint(&new.name, &new.payload) } else { 0 };
    if let Some(key) = &new.key
        && let Some(entry) = scope.key_holder(queue, &key.text)?
    {
        if entry.expires.is_none_or(|at| at > scope.now) {
            return Ok(EnqueueOutcome { id: entry.id, deduplicated: true, differs: entry.fingerprint != print });
        }
        if let Some(at) = entry.expires {
            scope.txn.delete(queue.unique_end(at, &key.text));
        }
    }
    let id = scope.next_id()?;
    let mut task = Task {
        id,
        name: new.name,
        priority: new.priority,
        enqueued: scope.now,
        updated: scope.now,
        policy: new.policy,
        key: new.key,
        metadata: new.metadata,
        counters: Counters::default(),
        token: FencingToken::default(),
        state: waiting(new.due.instant(scope.now), scope.now),
        payload: Body::None,
        progress: Body::None,
        result: Body::None,
        failures: Vec::new(),
    };
    scope.set_body(queue, id, &mut task.payload, Slot::Payload, new.payload);
    if let Some(key) = &task.key {
        scope.put_unique(queue, &key.text, UniqueEntry { id, fingerprint: print, expires: None });
    }
    scope.create(queue, &task)?;
    Ok(EnqueueOutcome { id, deduplicated: false, differs: false })
}
