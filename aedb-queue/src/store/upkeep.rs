//! Upkeep: what a sweep did, and what a check found.

use crate::model::task::TaskId;

/// How much of what is finished a queue keeps, besides each record's own age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Finished records, by default 1,000,000. Done ones go first, then cancelled, then dead; of each, those that end first.
    pub records: u64,
    /// Bytes of finished records, by default 1 GiB.
    pub bytes: u64,
    /// Steps that one call takes, by default 10,000.
    pub steps: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { records: 1_000_000, bytes: 1 << 30, steps: 10_000 }
    }
}

/// What one call of sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// Scheduled tasks that became ready.
    pub promoted: u64,
    /// Tasks whose lease had run out and that are ready again or dead.
    pub reclaimed: u64,
    /// Idempotency keys whose window had passed.
    pub keys_expired: u64,
    /// Finished records that were removed.
    pub pruned: u64,
    /// Tasks that became dead without a worker's word, by lost leases or by damage, in this sweep, in a claim or in a repair
    /// since the last one; at most `steps` of them.
    ///
    /// Each such death is told by one sweep alone, whoever brought it about, in the commit that forgets it: a report that is
    /// lost is not told again. The task may have been retried or deleted since.
    pub died: Vec<TaskId>,
    /// True if there is more to do: call again.
    pub more: bool,
}

/// What a check found, and repaired if asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Records that were looked at.
    pub records: u64,
    /// What is wrong, in sentences; at most 1,000 of them.
    pub problems: Vec<String>,
    /// How many things were put right.
    pub repaired: u64,
}

impl CheckReport {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}
