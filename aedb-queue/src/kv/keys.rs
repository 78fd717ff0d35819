//! The keys, as a tree. Numbers are big endian, so that bytes sort as numbers do.
//!
//! ```text
//! 0x00 "token-floor"                              the least token that may be handed out next
//! 0x00 "grant" caller 0x00 target                 what a caller may do
//! len project len scope                           a scope's keyspace:
//!   \x00aedb:lease: name                            a lease
//!   \x00aedb:queue: u16(0) n                        the scope's last task id
//!   \x00aedb:queue: u16(len) queue kind ...         a queue:
//!     c                                               head: counts, paused
//!     p id                                            primary record
//!     b id slot                                       a long payload, progress or result
//!     s due id                                        scheduled
//!     r len name MAX-priority id                      ready, a line for each task name
//!     f deadline id                                   in flight
//!     d state expires id                              finished
//!     m id                                            became dead without a worker's word; for the next sweep to tell
//!     k key                                           idempotency key -> id
//!     x expires key                                   when a finished task's idempotency key ends
//!   anything else                                   the application's own keys
//! ```

use crate::model::task::{StateKind, Task, TaskId, TaskState};
use crate::time::Timestamp;

pub(crate) const QUEUE_PREFIX: &[u8] = b"\x00aedb:queue:";
pub(crate) const LEASE_PREFIX: &[u8] = b"\x00aedb:lease:";

/// The least token that may be handed out next, set when a restored copy is opened first.
pub(crate) fn token_floor() -> Vec<u8> {
    b"\x00token-floor".to_vec()
}

/// A caller's grants: all of them, or the one for a target.
pub(crate) fn grant(caller: &str, target: &[u8]) -> Vec<u8> {
    [b"\x00grant\x00", caller.as_bytes(), b"\x00", target].concat()
}

/// The first key behind all keys that begin with `prefix`.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// A scope's keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScopeKeys(Vec<u8>);

impl ScopeKeys {
    pub(crate) fn new(project: &str, scope: &str) -> Self {
        let mut base = Vec::with_capacity(project.len() + scope.len() + 2);
        for name in [project, scope] {
            // Names have at most 255 bytes, checked when the scope was made.
            base.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            base.extend_from_slice(name.as_bytes());
        }
        Self(base)
    }

    pub(crate) fn application(&self, key: &[u8]) -> Vec<u8> {
        [&self.0, key].concat()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn lease(&self, name: &str) -> Vec<u8> {
        [&self.0, LEASE_PREFIX, name.as_bytes()].concat()
    }

    pub(crate) fn last_id(&self) -> Vec<u8> {
        [&self.0, QUEUE_PREFIX, &[0, 0], b"n"].concat()
    }

    pub(crate) fn queues(&self) -> Vec<u8> {
        [&self.0, QUEUE_PREFIX].concat()
    }

    pub(crate) fn queue(&self, name: &str) -> QueueKeys {
        // Names have at most 255 bytes, checked when the handle was made.
        let len = u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes();
        QueueKeys([&self.0, QUEUE_PREFIX, &len, name.as_bytes()].concat())
    }
}

/// A queue's part of its scope's keyspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKeys(Vec<u8>);

impl QueueKeys {
    /// The queue as a topic to wait on.
    pub(crate) fn topic(&self) -> &[u8] {
        &self.0
    }

    /// The keys of one kind.
    pub(crate) fn kind(&self, kind: u8) -> Vec<u8> {
        self.key(kind, 0)
    }

    fn key(&self, kind: u8, tail: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.0.len() + 1 + tail);
        key.extend_from_slice(&self.0);
        key.push(kind);
        key
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        self.key(b'c', 0)
    }

    pub(crate) fn primary(&self, id: TaskId) -> Vec<u8> {
        let mut key = self.key(b'p', 8);
        key.extend_from_slice(&id.as_u64().to_be_bytes());
        key
    }

    pub(crate) fn body(&self, id: TaskId, slot: u8) -> Vec<u8> {
        let mut key = self.key(b'b', 9);
        key.extend_from_slice(&id.as_u64().to_be_bytes());
        key.push(slot);
        key
    }

    pub(crate) fn ready_name(&self, name: &str) -> Vec<u8> {
        let mut key = self.key(b'r', 17 + name.len());
        key.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        key.extend_from_slice(name.as_bytes());
        key
    }

    pub(crate) fn ready(&self, name: &str, priority: u64, id: TaskId) -> Vec<u8> {
        let mut key = self.ready_name(name);
        key.extend_from_slice(&(u64::MAX - priority).to_be_bytes());
        key.extend_from_slice(&id.as_u64().to_be_bytes());
        key
    }

    pub(crate) fn timed(&self, kind: u8, at: Timestamp, id: TaskId) -> Vec<u8> {
        let mut key = self.key(kind, 16);
        key.extend_from_slice(&at.as_micros().to_be_bytes());
        key.extend_from_slice(&id.as_u64().to_be_bytes());
        key
    }

    pub(crate) fn finished(&self, state: StateKind, expires: Timestamp, id: TaskId) -> Vec<u8> {
        let mut key = self.finished_kind(state);
        key.extend_from_slice(&expires.as_micros().to_be_bytes());
        key.extend_from_slice(&id.as_u64().to_be_bytes());
        key
    }

    pub(crate) fn death(&self, id: TaskId) -> Vec<u8> {
        let mut key = self.key(b'm', 8);
        key.extend_from_slice(&id.as_u64().to_be_bytes());
        key
    }

    pub(crate) fn finished_kind(&self, state: StateKind) -> Vec<u8> {
        let mut key = self.key(b'd', 17);
        key.push(match state {
            StateKind::Dead => b'x',
            StateKind::Cancelled => b'c',
            _ => b'd',
        });
        key
    }

    pub(crate) fn unique(&self, text: &str) -> Vec<u8> {
        let mut key = self.key(b'k', text.len());
        key.extend_from_slice(text.as_bytes());
        key
    }

    pub(crate) fn unique_end(&self, at: Timestamp, text: &str) -> Vec<u8> {
        let mut key = self.key(b'x', 8 + text.len());
        key.extend_from_slice(&at.as_micros().to_be_bytes());
        key.extend_from_slice(text.as_bytes());
        key
    }

    /// The one index entry of a record: a function of the record and nothing else.
    pub(crate) fn index(&self, task: &Task) -> Vec<u8> {
        match task.state {
            TaskState::Scheduled { due } => self.timed(b's', due, task.id),
            TaskState::Ready { .. } => self.ready(&task.name, task.priority, task.id),
            TaskState::InFlight { deadline, .. } => self.timed(b'f', deadline, task.id),
            TaskState::Done { .. } | TaskState::Dead { .. } | TaskState::Cancelled { .. } => {
                self.finished(task.state.kind(), task.expires().unwrap_or(Timestamp::MAX), task.id)
            }
        }
    }
}

/// The id at the end of an index or primary key.
pub(crate) fn id_of(key: &[u8]) -> Option<TaskId> {
    key.last_chunk::<8>().map(|id| TaskId::from_u64(u64::from_be_bytes(*id)))
}

/// The instant before the id at the end of a timed index key.
pub(crate) fn instant_of(key: &[u8]) -> Option<Timestamp> {
    let (_, tail) = key.split_last_chunk::<16>()?;
    tail.first_chunk::<8>().map(|at| Timestamp::from_micros(u64::from_be_bytes(*at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c36_higher_priorities_sort_first_over_the_whole_range() {
        let queue = ScopeKeys::new("p", "s").queue("q");
        let keys: Vec<_> = [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 31, 1, 0]
            .map(|priority| queue.ready("n", priority, TaskId::from_u64(7)))
            .into();
        assert!(keys.is_sorted());
    }

    #[test]
    fn names_that_are_prefixes_of_each_other_are_kept_apart() {
        let scope = ScopeKeys::new("p", "s");
        for (a, b) in [("q", "qr"), ("a", "ap")] {
            let short = scope.queue(a);
            assert!(!scope.queue(b).primary(TaskId::from_u64(1)).starts_with(short.topic()));
        }
        assert!(!ScopeKeys::new("a", "bc").lease("x").starts_with(&ScopeKeys::new("a", "b").0));
    }

    #[test]
    fn the_end_of_a_prefix_is_behind_all_its_keys() {
        assert_eq!(after(b"ab"), b"ac");
        assert_eq!(after(b"a\xff"), b"b");
        assert!(after(b"\xff").is_empty());
    }
}
