//! Reading and writing a task's record together with everything that follows from it: its index entry, its long values,
//! its idempotency key and the queue's counts. No verb writes any of these by itself.

use std::sync::Arc;

use super::codec::{self, Reader, Writer};
use super::keys::QueueKeys;
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

/// A record as it is stored, with what its change must undo.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) task: Task,
    index: Vec<u8>,
    kind: StateKind,
    bytes: u64,
}

/// What a claim key's entry says: which task holds the key, what it was, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UniqueEntry {
    pub(crate) id: TaskId,
    pub(crate) fingerprint: u32,
    /// `None` while the task is unfinished.
    pub(crate) expires: Option<Timestamp>,
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

/// What a name and payload are known by, to see whether the same key came with something else.
pub(crate) fn fingerprint(name: &str, payload: &Json) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(name.as_bytes());
    hash.update(&[0]);
    hash.update(payload.as_str().as_bytes());
    hash.finalize()
}

impl ScopeTxn<'_, '_> {
    /// A task's record. A damaged one is set aside as dead, and then returned as that.
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
        if matches!(task.state, TaskState::Dead { reason: DeadReason::Damaged, .. }) {
            self.txn.delete(queue.body(task.id, Slot::Damaged as u8));
        }
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

    /// Who holds an idempotency key. A damaged entry counts as none.
    pub(crate) fn unique(&self, queue: &QueueKeys, text: &str) -> Result<Option<UniqueEntry>> {
        let Some(bytes) = self.txn.get(&queue.unique(text))? else { return Ok(None) };
        Ok(read_unique(&bytes).ok())
    }

    pub(crate) fn put_unique(&mut self, queue: &QueueKeys, text: &str, entry: UniqueEntry) {
        let mut w = Writer::new(24);
        w.number(entry.id.as_u64());
        w.number(entry.fingerprint.into());
        w.number(entry.expires.map_or(0, Timestamp::as_micros));
        self.txn.put(queue.unique(text), w.finish());
    }

    /// The idempotency key's end follows the task's: set when it finishes, taken back when it lives again.
    fn follow_key(&mut self, queue: &QueueKeys, stored: &Stored) -> Result<()> {
        let task = &stored.task;
        let (was, is) = (is_finished(stored.kind), task.state.finished());
        let Some(key) = &task.key else { return Ok(()) };
        if was == is.is_some() {
            return Ok(());
        }
        let mut entry = match self.unique(queue, &key.text)? {
            Some(entry) if entry.id == task.id => entry,
            // It lives again after a sweep has ended its key: it takes the key anew. A damaged payload is for claim to find.
            None if is.is_none() => {
                let payload = body(self.txn, queue, task.id, &task.payload, Slot::Payload).ok().flatten();
                let payload = payload.unwrap_or_else(Json::null);
                UniqueEntry { id: task.id, fingerprint: fingerprint(&task.name, &payload), expires: None }
            }
            _ => return Ok(()),
        };
        if let Some(at) = entry.expires {
            self.txn.delete(queue.unique_end(at, &key.text));
        }
        entry.expires = is.map(|at| at.saturating_add(key.window));
        if let Some(at) = entry.expires {
            self.txn.put(queue.unique_end(at, &key.text), Vec::new());
        }
        let text = Arc::clone(&key.text);
        self.put_unique(queue, &text, entry);
        Ok(())
    }
}

pub(crate) fn read_unique(bytes: &[u8]) -> Result<UniqueEntry> {
    let mut r = Reader::new(bytes)?;
    let (id, fingerprint) = (TaskId::from_u64(r.number()?), r.small()?);
    let expires = Some(r.instant()?).filter(|at| at.as_micros() > 0);
    Ok(UniqueEntry { id, fingerprint, expires })
}

fn is_finished(kind: StateKind) -> bool {
    matches!(kind, StateKind::Done | StateKind::Dead | StateKind::Cancelled)
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
