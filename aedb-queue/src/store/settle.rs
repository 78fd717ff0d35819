//! Settle: complete, fail, snooze, release, discard or continue a claimed task, under its token.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::model::json::Json;
use crate::model::limits;
use crate::model::task::{FencingToken, TaskId};
use crate::model::transition::{LeaseLoss, Retry};
use crate::store::{ClaimedTask, Due, Effects, NewTask};

/// What a fenced write answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lost lease means that nothing was applied"]
pub enum FencedCommit {
    /// Everything was applied.
    Applied,
    /// The lease was lost; nothing was applied.
    LeaseLost(LeaseLoss),
}

impl FencedCommit {
    /// Whether everything was applied.
    pub fn is_applied(self) -> bool {
        self == Self::Applied
    }
}

/// A completion: the acknowledgement, and what becomes durable with it.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    pub(crate) result: Option<Json>,
    pub(crate) effects: Effects,
    pub(crate) keep: Option<Duration>,
}

impl Completion {
    /// Only the acknowledgement.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a result.
    #[must_use]
    pub fn result(mut self, result: Json) -> Self {
        self.result = Some(result);
        self
    }

    /// Adds the caller's own writes.
    #[must_use]
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects.0.extend(effects.0);
        self
    }

    /// Enqueues a task with the acknowledgement. If its idempotency key exists it is deduplicated; it never blocks.
    #[must_use]
    pub fn follow_up(mut self, queue: impl Into<String>, task: NewTask) -> Self {
        self.effects = self.effects.enqueue(queue, task);
        self
    }

    /// Overrides how long the finished record is kept.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }
}

/// What a worker decided about a task it holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Decision {
    /// It is done.
    Complete(Completion),
    /// It failed.
    Fail {
        /// What went wrong; cut at 8 KiB.
        error: Arc<str>,
        /// Whether and when to try again.
        retry: Retry,
    },
    /// Run it later; nothing is charged.
    Snooze(Due),
    /// Give it back at once; nothing is charged.
    Release,
    /// It is no longer wanted: it is cancelled, and no failure is charged. The record is kept as long as a done one's.
    Discard {
        /// Why; cut at 8 KiB and kept as the last of the record's failures.
        reason: Arc<str>,
    },
    /// The same task goes on with a new payload, as if enqueued anew but in its old place: no progress, fresh budgets of
    /// failures and lost leases; its id, key, name, priority and policy stay.
    Continue {
        /// The new payload; at most 1 MiB.
        payload: Json,
        /// What is written, and enqueued, in the same commit.
        effects: Effects,
        /// When it is due.
        due: Due,
    },
}

/// A decision about one claimed task.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The task.
    pub id: TaskId,
    /// The token it was claimed under.
    pub token: FencingToken,
    /// What was decided.
    pub decision: Decision,
}

impl Settlement {
    /// A decision about this claim.
    pub fn new(claim: &ClaimedTask, decision: Decision) -> Self {
        Self { id: claim.id, token: claim.token, decision }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match &self.decision {
            Decision::Complete(completion) => {
                let result = completion.result.as_ref().map_or(0, |json| json.as_str().len());
                limits::at_most("result bytes", limits::RESULT_BYTES, result)?;
                completion.effects.check()
            }
            Decision::Continue { payload, effects, .. } => {
                limits::at_most("payload bytes", limits::PAYLOAD_BYTES, payload.as_str().len())?;
                effects.check()
            }
            Decision::Fail { .. } | Decision::Snooze(_) | Decision::Release | Decision::Discard { .. } => Ok(()),
        }
    }
}
