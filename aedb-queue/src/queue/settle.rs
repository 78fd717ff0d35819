//! The two decisions that neither end a task well nor charge it: discard and continue.

use std::sync::Arc;

use super::Queue;
use crate::error::Result;
use crate::model::json::Json;
use crate::store::{ClaimedTask, Decision, Due, Effects, FencedCommit};

impl Queue {
    /// Says that a claimed task is no longer wanted: it is cancelled, with the reason in its record, and no failure is charged.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve; the reason is cut at 8 KiB and made safe as needed, so that discarding always works.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::complete`].
    pub async fn discard(&self, claim: &ClaimedTask, reason: impl Into<Arc<str>>) -> Result<FencedCommit> {
        self.settle_one(claim, Decision::Discard { reason: reason.into() }).await
    }

    /// Goes on with a claimed task under a new payload: the same id, key, name, priority and place in line, without progress
    /// and with fresh budgets. The effects are applied, and their tasks enqueued, in the same commit.
    ///
    /// So a long walk is one task: each attempt does a page and leaves the next one's place as the payload.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if the payload is over 1 MiB, [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if an assertion does not hold: nothing
    /// was applied and the lease is still held.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::complete`].
    pub async fn continue_with(
        &self,
        claim: &ClaimedTask,
        payload: Json,
        effects: Effects,
        due: Due,
    ) -> Result<FencedCommit> {
        self.settle_one(claim, Decision::Continue { payload, effects, due }).await
    }
}
