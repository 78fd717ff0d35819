//! Idempotency keys: an entry from a key to the one task that has it. It follows the task: without an end while the task
//! lives, with the end of its window once it has finished.

use std::sync::Arc;

use super::codec::{Reader, Writer};
use super::keys::QueueKeys;
use super::record::{self, Slot, Stored, body};
use super::scope::ScopeTxn;
use crate::engine::View;
use crate::error::{ErrorKind, Result};
use crate::model::json::Json;
use crate::model::task::{StateKind, Task, TaskId};
use crate::time::Timestamp;

/// What a claim key's entry says: which task holds the key, what it was, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UniqueEntry {
    pub(crate) id: TaskId,
    pub(crate) fingerprint: u32,
    /// `None` while the task is unfinished.
    pub(crate) expires: Option<Timestamp>,
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

    /// Who keeps others from a key. An entry without an end whose task is gone keeps nobody: a damaged record does not tell its
    /// key when it is set aside, so that the key is held for as long as the record is kept, and no longer.
    pub(crate) fn key_holder(&self, queue: &QueueKeys, text: &str) -> Result<Option<UniqueEntry>> {
        match self.unique(queue, text)? {
            Some(entry) if is_orphan(self.txn, queue, &entry)? => Ok(None),
            entry => Ok(entry),
        }
    }

    /// Gives a live task the entry of its key back.
    pub(crate) fn restore_key(&mut self, queue: &QueueKeys, task: &Task) -> Result<()> {
        let Some(key) = &task.key else { return Ok(()) };
        if let Some(UniqueEntry { expires: Some(at), .. }) = self.unique(queue, &key.text)? {
            self.txn.delete(queue.unique_end(at, &key.text));
        }
        let entry = self.fresh(queue, task);
        self.put_unique(queue, &key.text, entry);
        Ok(())
    }

    /// The entry of a live task. A damaged payload is for claim to find.
    fn fresh(&self, queue: &QueueKeys, task: &Task) -> UniqueEntry {
        let payload = body(self.txn, queue, task.id, &task.payload, Slot::Payload).ok().flatten();
        let payload = payload.unwrap_or_else(Json::null);
        UniqueEntry { id: task.id, fingerprint: fingerprint(&task.name, &payload), expires: None }
    }

    /// The idempotency key's end follows the task's: set when it finishes, taken back when it lives again.
    pub(super) fn follow_key(&mut self, queue: &QueueKeys, stored: &Stored) -> Result<()> {
        let task = &stored.task;
        let (was, is) = (is_finished(stored.kind), task.state.finished());
        let Some(key) = &task.key else { return Ok(()) };
        if was == is.is_some() {
            return Ok(());
        }
        let mut entry = match self.unique(queue, &key.text)? {
            Some(entry) if entry.id == task.id => entry,
            // It lives again after a sweep has ended its key: it takes the key anew.
            None if is.is_none() => self.fresh(queue, task),
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

/// Whether an entry has neither an end nor a task, so that nothing would ever end it.
pub(crate) fn is_orphan(view: &dyn View, queue: &QueueKeys, entry: &UniqueEntry) -> Result<bool> {
    Ok(entry.expires.is_none() && view.get(&queue.primary(entry.id))?.is_none())
}

/// Whether a live task has lost its key: its entry leads neither to it, without an end, nor to another live task of this key.
pub(crate) fn has_lost_key(view: &dyn View, queue: &QueueKeys, task: &Task) -> Result<bool> {
    let Some(key) = task.key.as_ref().filter(|_| task.state.finished().is_none()) else { return Ok(false) };
    let entry = view.get(&queue.unique(&key.text))?.and_then(|bytes| read_unique(&bytes).ok());
    match entry {
        None => Ok(true),
        Some(entry) if entry.id == task.id => Ok(entry.expires.is_some()),
        Some(entry) => match record::read(view, queue, entry.id) {
            Ok(other) => Ok(!other.is_some_and(|other| {
                other.state.finished().is_none() && other.key.is_some_and(|its| its.text == key.text)
            })),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(true),
            Err(error) => Err(error),
        },
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
