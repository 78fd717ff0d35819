//! Heartbeat: keep a lease alive and record progress.

use crate::error::Result;
use crate::model::json::Json;
use crate::model::limits;
use crate::model::task::{FencingToken, TaskId};
use crate::model::transition::LeaseLoss;
use crate::store::{ClaimedTask, LeaseLength};
use crate::time::Timestamp;

/// An extension of one lease.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The task.
    pub id: TaskId,
    /// The token it was claimed under.
    pub token: FencingToken,
    /// How long from now the lease shall last; it never gets shorter.
    pub lease: LeaseLength,
    /// Progress to record, if there is any; the next attempt starts with it.
    pub progress: Option<Json>,
}

impl Heartbeat {
    /// Extends this claim's lease.
    pub fn new(claim: &ClaimedTask, lease: LeaseLength) -> Self {
        Self { id: claim.id, token: claim.token, lease, progress: None }
    }

    /// Records progress too.
    #[must_use]
    pub fn progress(mut self, progress: Json) -> Self {
        self.progress = Some(progress);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.lease.check()?;
        let progress = self.progress.as_ref().map_or(0, |json| json.as_str().len());
        limits::at_most("progress bytes", limits::PROGRESS_BYTES, progress)
    }
}

/// What a heartbeat answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lost lease means that the work must stop"]
pub enum HeartbeatOutcome {
    /// The lease lasts until this instant.
    Extended(Timestamp),
    /// The lease was lost; nothing was recorded.
    LeaseLost(LeaseLoss),
}
