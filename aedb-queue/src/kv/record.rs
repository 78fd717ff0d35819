//! Reading and writing a task's record together with everything that follows from it: its index entry, its long values,
//! its idempotency key (`unique.rs`) and the queue's counts. No verb writes any of these by itself.

use std::sync::Arc;

use super::codec;
use super::keys::{self, QueueKeys};
use super::scope::ScopeTxn;
use crate::engine::View;
use crate::error::{ErrorKind, Result};
use crate::model::json::Json;
use crate::model::limits;
use crate::model::task::{Body, Counters, DeadReason, FencingToken, Policy, StateKind, Task, TaskId, TaskState};
use crate::time::Timestamp;

/// Values up to this long are part of the record; longer ones lie beside it, so that claiming does not copy them.
const INLINE_BYTES: usize = 512;

/// The long values of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Slot {
    Payload = 0,
    Progress = 1,
    Result = 2,
    /// The bytes of a damaged record, kept for whoever wants to look.
    Damaged = 9,
}

impl Slot {
    const ALL: [Self; 4] = [Self::Payload, Self::Progress, Self::Result, Self::Damaged];
}

/// A record as it is stored, with what its change must undo.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) task: Task,
    index: Vec<u8>,
    pub(super) kind: StateKind,
    bytes: u64,
}

impl Stored {
    /// Whether this is the record's own index entry.
    pub(crate) fn is_at(&self, index: &[u8]) -> bool {
        self.index == index
    }
}

/// A record's bytes and fields.
pub(crate) fn read(view: &dyn View, queue: &QueueKeys, id: TaskId) -> Result<Option<Task>> {
    view.get(&queue.primary(id))?.map(|bytes| codec::decode(id, &bytes)).transpose()
}

/// A value, wherever it lies.
pub(crate) fn body(view: &dyn View, queue: &QueueKeys, id: TaskId, body: &Body, slot: Slot) -> Result<Option<Json>> {
    match body {
        Body::None => Ok(None),
        Body::Inline(json) => Ok(Some(json.clone())),
        Body::Beside { .. } => {
            let bytes =
                view.get(&queue.body(id, slot as u8))?.ok_or_else(|| codec::corrupt("a long value is missing"))?;
            codec::decode_beside(&bytes).map(Some)
        }
    }
}

impl ScopeTxn<'_, '_> {
    /// A task's record, unless it is damaged.
    pub(crate) fn load(&mut self, queue: &QueueKeys, id: TaskId) -> Result<Option<Stored>> {
        let Some(bytes) = self.txn.get(&queue.primary(id))? else { return Ok(None) };
        match codec::decode(id, &bytes) {
            Ok(task) => {
                let bytes = bytes.len() as u64 + beside(&task);
                Ok(Some(Stored { index: queue.index(&task), kind: task.state.kind(), bytes, task }))
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The record that an index entry leads to. A damaged one is set aside under what the entry says of it. An entry that is not a
    /// good record's own goes: the entry follows from the record, so that it is the entry that is wrong.
    pub(crate) fn load_by(
        &mut self,
        queue: &QueueKeys,
        index: &[u8],
        kind: StateKind,
        name: &str,
    ) -> Result<Option<Stored>> {
        let Some(id) = keys::id_of(index) else { return Ok(None) };
        match self.load(queue, id)? {
            Some(stored) if stored.is_at(index) => return Ok(Some(stored)),
            Some(_) => self.txn.delete(index.to_vec()),
            None => self.set_aside(queue, index, kind, id, name)?,
        }
        Ok(None)
    }

    /// Writes a new task.
    pub(crate) fn create(&mut self, queue: &QueueKeys, task: &Task) -> Result<()> {
        self.write(queue, task, queue.index(task))
    }

    /// Writes a changed task that no worker had a say in: if it is dead by now, the next sweep tells.
    pub(crate) fn save_unasked(&mut self, queue: &QueueKeys, stored: &Stored) -> Result<()> {
        if matches!(stored.task.state, TaskState::Dead { .. }) {
            self.txn.put(queue.death(stored.task.id), Vec::new());
        }
        self.save(queue, stored)
    }

    /// Writes a changed task: its old index entry and count go, the new ones come.
    pub(crate) fn save(&mut self, queue: &QueueKeys, stored: &Stored) -> Result<()> {
        let task = &stored.task;
        self.head(queue)?.remove(stored.kind, stored.bytes);
        let index = queue.index(task);
        if stored.index != index {
            self.txn.delete(stored.index.clone());
        }
        self.follow_key(queue, stored)?;
        if task.state.finished().is_some()
            && !matches!(task.state, TaskState::Dead { .. })
            && task.policy.keep_done.is_zero()
        {
            self.erase(queue, task);
            return Ok(());
        }
        self.write(queue, task, index)
    }

    fn write(&mut self, queue: &QueueKeys, task: &Task, index: Vec<u8>) -> Result<()> {
        let bytes = codec::encode(task);
        let kind = task.state.kind();
        self.head(queue)?.add(kind, bytes.len() as u64 + beside(task));
        let primary = queue.primary(task.id);
        if task.state.finished().is_some() {
            self.txn.touch(&primary);
        }
        self.txn.put(primary, bytes);
        self.txn.put(index, Vec::new());
        if matches!(kind, StateKind::Ready | StateKind::Scheduled) {
            self.txn.touch(queue.topic());
        }
        Ok(())
    }

    /// Removes a task and all that follows from it; its idempotency key too if `free_key`.
    pub(crate) fn remove(&mut self, queue: &QueueKeys, stored: &Stored, free_key: bool) -> Result<()> {
        self.head(queue)?.remove(stored.kind, stored.bytes);
        self.txn.delete(stored.index.clone());
        self.erase(queue, &stored.task);
        if free_key && let Some(key) = &stored.task.key {
            let entry = self.unique(queue, &key.text)?;
            if let Some(entry) = entry.filter(|entry| entry.id == stored.task.id) {
                self.txn.delete(queue.unique(&key.text));
                if let Some(at) = entry.expires {
                    self.txn.delete(queue.unique_end(at, &key.text));
                }
            }
        }
        Ok(())
    }

    fn erase(&mut self, queue: &QueueKeys, task: &Task) {
        let primary = queue.primary(task.id);
        self.txn.touch(&primary);
        self.txn.delete(primary);
        for (body, slot) in
            [(&task.payload, Slot::Payload), (&task.progress, Slot::Progress), (&task.result, Slot::Result)]
        {
            if matches!(body, Body::Beside { .. }) {
                self.txn.delete(queue.body(task.id, slot as u8));
            }
        }
        if is_set_aside(task) {
            Slot::ALL.iter().for_each(|slot| self.txn.delete(queue.body(task.id, *slot as u8)));
        }
    }

    /// Removes a finished record that is damaged, with all that its index entry and its id lead to.
    pub(crate) fn remove_damaged(
        &mut self,
        queue: &QueueKeys,
        index: Vec<u8>,
        kind: StateKind,
        id: TaskId,
    ) -> Result<()> {
        let primary = queue.primary(id);
        let mut bytes = self.txn.get(&primary)?.map_or(0, |record| record.len() as u64);
        for slot in Slot::ALL {
            let key = queue.body(id, slot as u8);
            let value = self.txn.get(&key)?.and_then(|value| codec::decode_beside(&value).ok());
            bytes += value.map_or(0, |json| json.as_str().len() as u64);
            self.txn.delete(key);
        }
        self.txn.touch(&primary);
        self.txn.delete(primary);
        self.txn.delete(index);
        self.head(queue)?.remove(kind, bytes);
        Ok(())
    }

    /// Puts a value where it belongs: into the record or beside it.
    pub(crate) fn set_body(&mut self, queue: &QueueKeys, id: TaskId, body: &mut Body, slot: Slot, json: Json) {
        let len = json.as_str().len();
        if len <= INLINE_BYTES {
            if matches!(body, Body::Beside { .. }) {
                self.txn.delete(queue.body(id, slot as u8));
            }
            *body = Body::Inline(json);
        } else {
            self.txn.put(queue.body(id, slot as u8), codec::encode_beside(&json));
            // Values have at most 1 MiB, checked at the door.
            *body = Body::Beside { bytes: u32::try_from(len).unwrap_or(u32::MAX) };
        }
    }

    /// Forgets a value.
    pub(crate) fn clear_body(&mut self, queue: &QueueKeys, id: TaskId, body: &mut Body, slot: Slot) {
        if let Body::Beside { .. } = std::mem::take(body) {
            self.txn.delete(queue.body(id, slot as u8));
        }
    }

    /// Sets a damaged record aside as dead, under what its index entry still says about it (contract rule 15).
    ///
    /// An index entry without any record is removed.
    pub(crate) fn set_aside(
        &mut self,
        queue: &QueueKeys,
        index: &[u8],
        kind: StateKind,
        id: TaskId,
        name: &str,
    ) -> Result<()> {
        self.txn.delete(index.to_vec());
        self.head(queue)?.remove(kind, 0);
        let Some(damaged) = self.txn.get(&queue.primary(id))? else { return Ok(()) };
        self.txn.put(queue.body(id, Slot::Damaged as u8), damaged);
        self.txn.put(queue.death(id), Vec::new());
        let task = Task {
            id,
            name: Arc::from(if name.is_empty() { "damaged" } else { name }),
            priority: 0,
            enqueued: Timestamp::from_micros(id.as_u64()),
            updated: self.now,
            policy: Policy::default(),
            key: None,
            metadata: Vec::new(),
            counters: Counters::default(),
            // Whoever holds the task now must not find its token right again.
            token: FencingToken::from_u64(self.now.as_micros()),
            state: TaskState::Dead { at: self.now, reason: DeadReason::Damaged },
            payload: Body::Inline(Json::null()),
            progress: Body::None,
            result: Body::None,
            failures: Vec::new(),
        };
        self.write(queue, &task, queue.index(&task))
    }
}

/// Whether the record stands for one that was damaged.
fn is_set_aside(task: &Task) -> bool {
    matches!(task.state, TaskState::Dead { reason: DeadReason::Damaged, .. })
}

/// Whether a record has a long value in the slot with this number. One that was set aside has whatever there is.
pub(crate) fn has_beside(task: &Task, slot: u8) -> bool {
    let is_long = |body: &Body| matches!(body, Body::Beside { .. });
    is_set_aside(task)
        || [(&task.payload, Slot::Payload), (&task.progress, Slot::Progress), (&task.result, Slot::Result)]
            .into_iter()
            .any(|(body, of)| of as u8 == slot && is_long(body))
}

/// Bytes that lie beside a record.
pub(crate) fn beside(task: &Task) -> u64 {
    [&task.payload, &task.progress, &task.result]
        .into_iter()
        .map(|body| if let Body::Beside { bytes } = body { u64::from(*bytes) } else { 0 })
        .sum()
}

// A record holds at most its inline values, its metadata, ten error texts and names: far below what any engine takes as one
// value, so a task that was accepted can always be claimed, failed and completed (contract section 10).
const _: () =
    assert!(3 * INLINE_BYTES + limits::METADATA_BYTES + limits::FAILURES_KEPT * limits::ERROR_BYTES < 1 << 17);
