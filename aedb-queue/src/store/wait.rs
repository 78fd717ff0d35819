//! Wait for: what became of a task, as soon as something did.

use crate::model::task::StateKind;
use crate::store::TaskRecord;

/// What waiting for a task came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitOutcome {
    /// It is done, dead or cancelled; here is its record.
    Finished(Box<TaskRecord>),
    /// There is no such task: never enqueued, deleted, or finished with a record that is not kept.
    Gone,
    /// The time is over, and it is still in this state.
    Pending(StateKind),
}

impl WaitOutcome {
    /// The record of a task that has finished.
    pub fn finished(self) -> Option<TaskRecord> {
        match self {
            Self::Finished(record) => Some(*record),
            Self::Gone | Self::Pending(_) => None,
        }
    }
}
