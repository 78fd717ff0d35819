//! The engine seam: run this verb against a consistent view, and make its writes durable at once.
//!
//! A verb is a synchronous function over a [`Txn`], with the instant as an argument. Its writes are buffered and stay only if
//! it succeeds. One thread drains all waiting verbs into one commit and one fsync, each seeing the ones before it, so that
//! nothing conflicts. A verb that has nothing to do yet may *wait*: it is run again inside the very commit that makes
//! something ready.

#[cfg(feature = "aedb")]
pub(crate) mod aedb;
mod apply;
mod disk;
mod drive;
mod folder;
mod job;
mod native;
mod open;
mod overlay;
mod parked;
mod threaded;
mod turn;

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use crate::error::Result;
use crate::time::Timestamp;

pub(crate) use job::{Job, Turn, submit, submit_detached, submit_waiting};
pub use native::NativeWrite;
pub(crate) use open::{Options, Place, open};
pub(crate) use overlay::Txn;
// What an engine inside of another database needs.
#[cfg(feature = "aedb")]
pub(crate) use {
    drive::{CommitError, Drive},
    overlay::{Overlay, Size},
    threaded::Threaded,
};

/// What a scan calls for each key and value, in order.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// A consistent view of an ordered keyspace.
pub(crate) trait View {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Visits the keys from `from`, included, to `until`, excluded, in order, until told to stop.
    fn scan(&self, from: &[u8], until: &[u8], visit: Visit<'_>) -> Result<()>;
    /// Whether a caller may read or write a key, where the engine keeps permissions of its own; `None` where it has none.
    fn admits(&self, _caller: &str, _key: &[u8], _writes: bool) -> Option<Result<()>> {
        None
    }
    /// Whether this is AEDB: it keeps the permissions, takes its own mutations, and may have tasks of its own queue calls.
    fn is_aedb(&self) -> bool {
        false
    }
    /// How many keys one commit may change.
    fn most_changes(&self) -> usize {
        usize::MAX
    }
}

/// How far a long operation has come: entries or bytes done, and how many there are in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is done.
    pub done: u64,
    /// What there is in all.
    pub total: u64,
}

/// A function that long operations call as they go.
pub type ProgressFn<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// An ordered transactional keyspace.
pub(crate) trait Engine: Send + Sync + fmt::Debug {
    /// Queues a job for the next commit. Its `finish` is called exactly once, after that commit.
    fn submit(&self, job: Box<dyn Job>);
    /// Whether verbs that wait are served by themselves when their time comes: not in inline mode, where only calls run.
    fn serves_waiting(&self) -> bool;
    /// Reads what is committed.
    fn view(&self, read: &mut dyn FnMut(&dyn View, Timestamp) -> Result<()>) -> Result<()>;
    /// Copies everything as of one instant to a new file, marked so that its tokens go on growing.
    fn backup(&self, to: &Path, progress: ProgressFn<'_>) -> Result<()>;
    /// Gives unused space of the file back. True if it got smaller.
    fn compact(&self, progress: ProgressFn<'_>) -> Result<bool>;
}

/// Reads one value of committed state.
pub(crate) fn read<T>(engine: &dyn Engine, read: impl FnOnce(&dyn View, Timestamp) -> Result<T>) -> Result<T> {
    let (mut read, mut answer) = (Some(read), None);
    engine.view(&mut |view, now| {
        if let Some(read) = read.take() {
            answer = Some(read(view, now)?);
        }
        Ok(())
    })?;
    answer.ok_or_else(|| {
        crate::error::Error::new(crate::error::ErrorKind::Unavailable, "the engine did not run the read")
    })
}

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod tests;
