//! What the engine's loop commits batches to: a disk of our own, or a database that belongs to others.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::overlay::{Overlay, Size};
use super::{ProgressFn, View};
use crate::error::{Error, ErrorKind, Result};

/// Why a commit gave no answer, in a form that every job of the batch gets a copy of.
#[derive(Debug, Clone)]
pub(crate) struct CommitError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        Self::new(error.kind, error.message)
    }
}

impl From<Error> for CommitError {
    fn from(error: Error) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }
}

/// Where batches go.
pub(crate) trait Drive: Send + Sync + fmt::Debug {
    /// Whether others may commit unseen, so that waiting verbs must look often.
    fn is_shared(&self) -> bool;
    /// Whether others may commit in between, so that [`Drive::write`] may answer a conflict and the batch is run again; and whether a
    /// batch has one caller, whose permissions the drive checks.
    fn is_contended(&self) -> bool {
        false
    }
    /// Refuses a batch that is over a limit.
    fn fits(&self, _size: Size) -> Result<()> {
        Ok(())
    }
    /// Calls a function when others have committed something: a hint, which may be late or missing.
    fn on_change(&self, _listener: Arc<dyn Fn() + Send + Sync>) {}
    /// Runs a batch once, on behalf of a caller, and commits what it changed. [`ErrorKind::Conflict`] says that nothing was applied because
    /// something that the batch had read has changed since.
    fn write(
        &self,
        caller: Option<&str>,
        batch: &mut dyn FnMut(&dyn View) -> Overlay,
    ) -> std::result::Result<(), CommitError>;
    /// Reads what is committed.
    fn view(&self, read: &mut dyn FnMut(&dyn View) -> Result<()>) -> Result<()>;
    /// As [`Engine::backup`](super::Engine::backup).
    fn backup(&self, to: &Path, progress: ProgressFn<'_>) -> Result<()>;
    /// As [`Engine::compact`](super::Engine::compact).
    fn compact(&self, progress: ProgressFn<'_>) -> Result<bool>;
}
