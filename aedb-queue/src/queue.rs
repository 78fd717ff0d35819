//! A queue's handle: every verb on its tasks.

mod amend;
mod settle;
mod wait;

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::model::json::Json;
use crate::model::limits;
use crate::model::task::TaskId;
use crate::model::transition::Retry;
use crate::store::{
    CheckReport, ClaimRequest, ClaimedTask, Completion, Decision, Due, Effects, EnqueueOutcome, Explanation,
    FencedCommit, Filter, Heartbeat, HeartbeatOutcome, LeaseLength, NewTask, Page, Place, QueueStats, RetentionLimits,
    Settlement, Store, SweepReport, TaskRecord,
};
use crate::time::Timestamp;

/// A named line of tasks, ordered by priority, then first in, first out. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Queue {
    store: Arc<dyn Store>,
    pub(crate) at: Place,
    name: Arc<str>,
}

impl Queue {
    pub(crate) fn new(store: Arc<dyn Store>, at: Place, name: &str) -> Self {
        Self { store, at, name: name.into() }
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The present instant on the database's clock.
    pub fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// Enqueues a task. When it answers, the task is on disk.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if the task is not acceptable, [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied) without a grant: nothing was
    /// enqueued. [`ErrorKind::UnknownOutcome`](crate::ErrorKind::UnknownOutcome) if the commit failed half way: enqueue again with the same idempotency key to
    /// find out.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may still enqueue.
    pub async fn enqueue(&self, task: NewTask) -> Result<EnqueueOutcome> {
        self.enqueue_with(task, Effects::new()).await
    }

    /// Enqueues a task and applies effects in the same commit: the task exists if and only if they are applied.
    ///
    /// # Errors
    ///
    /// As [`Queue::enqueue`], and [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if an assertion does not hold.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::enqueue`].
    pub async fn enqueue_with(&self, task: NewTask, effects: Effects) -> Result<EnqueueOutcome> {
        task.check()?;
        effects.check()?;
        only(self.store.enqueue(&self.at, &self.name, vec![task], effects).await?)
    }

    /// Enqueues up to 10,000 tasks in one commit: all or none.
    ///
    /// # Errors
    ///
    /// As [`Queue::enqueue`].
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::enqueue`].
    pub async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<EnqueueOutcome>> {
        limits::at_most("tasks in a batch", limits::BATCH, tasks.len())?;
        tasks.iter().try_for_each(NewTask::check)?;
        self.store.enqueue(&self.at, &self.name, tasks, Effects::new()).await
    }

    /// Claims due tasks, the highest priority among all that are due first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if the request is out of bounds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: tasks that a dropped call had claimed are given back at once, and charged nothing.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Vec<ClaimedTask>> {
        request.check()?;
        self.store.claim(&self.at, &self.name, request).await
    }

    /// Completes a claimed task: the acknowledgement, the result, the follow-ups and the caller's own writes become visible
    /// together or not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if an assertion does not hold: nothing was applied and the lease is still held.
    /// [`ErrorKind::UnknownOutcome`](crate::ErrorKind::UnknownOutcome) if the commit failed half way. Completing again with the same claim is harmless and tells.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may still commit. Completing again with the same claim is harmless.
    pub async fn complete(&self, claim: &ClaimedTask, completion: Completion) -> Result<FencedCommit> {
        self.settle_one(claim, Decision::Complete(completion)).await
    }

    /// Records a failure: the task is tried again by its backoff, or is dead when its attempts are spent.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve; the error text is cut and made safe as needed, so that failing always works.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::complete`].
    pub async fn fail(&self, claim: &ClaimedTask, error: impl Into<Arc<str>>) -> Result<FencedCommit> {
        self.fail_with(claim, error, Retry::ByPolicy).await
    }

    /// Records a failure, with an instant to try again at or the word that trying again cannot help.
    ///
    /// # Errors
    ///
    /// As [`Queue::fail`].
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::complete`].
    pub async fn fail_with(
        &self,
        claim: &ClaimedTask,
        error: impl Into<Arc<str>>,
        retry: Retry,
    ) -> Result<FencedCommit> {
        self.settle_one(claim, Decision::Fail { error: error.into(), retry }).await
    }

    /// Puts a claimed task off; nothing is charged.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::complete`].
    pub async fn snooze(&self, claim: &ClaimedTask, until: Due) -> Result<FencedCommit> {
        self.settle_one(claim, Decision::Snooze(until)).await
    }

    /// Gives a claimed task back at once; nothing is charged.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::complete`].
    pub async fn release(&self, claim: &ClaimedTask) -> Result<FencedCommit> {
        self.settle_one(claim, Decision::Release).await
    }

    /// Settles up to 10,000 claims in one commit; each item stands alone.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) or [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if an item is not acceptable: then none was applied.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::complete`].
    pub async fn settle(&self, items: Vec<Settlement>) -> Result<Vec<Result<FencedCommit>>> {
        limits::at_most("items in a settle", limits::BATCH, items.len())?;
        items.iter().try_for_each(Settlement::check)?;
        self.store.settle(&self.at, &self.name, items).await
    }

    /// Extends a claim's lease from now, and records progress if there is any; the lease never gets shorter.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if the progress is over 256 KiB.
    pub async fn heartbeat(
        &self,
        claim: &ClaimedTask,
        lease: LeaseLength,
        progress: Option<Json>,
    ) -> Result<HeartbeatOutcome> {
        let beat = Heartbeat { progress, ..Heartbeat::new(claim, lease) };
        only(self.heartbeat_batch(vec![beat]).await?)
    }

    /// Extends up to 10,000 leases in one commit; each item stands alone.
    ///
    /// # Errors
    ///
    /// As [`Queue::heartbeat`].
    pub async fn heartbeat_batch(&self, items: Vec<Heartbeat>) -> Result<Vec<HeartbeatOutcome>> {
        limits::at_most("items in a heartbeat", limits::BATCH, items.len())?;
        items.iter().try_for_each(Heartbeat::check)?;
        self.store.heartbeat(&self.at, &self.name, items).await
    }

    /// Cancels a task that has not finished; a running one's worker learns it from its next heartbeat or settle. False if it
    /// has finished or does not exist.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn cancel(&self, id: TaskId) -> Result<bool> {
        only(self.store.cancel(&self.at, &self.name, vec![id]).await?)
    }

    /// Makes a dead, cancelled or scheduled task ready with a fresh budget. False for any other, and if another task has its
    /// idempotency key by now.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn retry(&self, id: TaskId) -> Result<bool> {
        only(self.store.retry(&self.at, &self.name, vec![id]).await?)
    }

    /// Retries every task of a filter, page by page, and answers how many became ready.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) unless the filter names the dead, cancelled or scheduled state.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: pages that were done stay done; call again to go on.
    pub async fn retry_all(&self, filter: Filter) -> Result<u64> {
        use crate::model::task::StateKind::{Cancelled, Dead, Scheduled};
        if !matches!(filter.state, Some(Dead | Cancelled | Scheduled)) {
            return Err(Error::invalid("retry_all takes a filter on the state dead, cancelled or scheduled"));
        }
        let (mut retried, mut filter) = (0, filter);
        loop {
            let page = self.list(filter.clone()).await?;
            let ids = page.tasks.iter().map(|task| task.id).collect();
            let done = self.store.retry(&self.at, &self.name, ids).await?;
            retried += done.into_iter().filter(|done| *done).count() as u64;
            match page.next {
                Some(next) => filter = filter.after(Some(next)),
                None => return Ok(retried),
            }
        }
    }

    /// Removes a task that is not in flight, and frees its idempotency key. False if it is in flight or does not exist.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn delete(&self, id: TaskId) -> Result<bool> {
        only(self.store.delete(&self.at, &self.name, vec![id]).await?)
    }

    /// Stops claims from the queue, on all machines, until it is resumed. What runs goes on.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn pause(&self) -> Result<()> {
        self.store.pause(&self.at, &self.name, true).await
    }

    /// Lets claims go on.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn resume(&self) -> Result<()> {
        self.store.pause(&self.at, &self.name, false).await
    }

    /// Everything recorded about a task.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if its record is damaged.
    pub async fn get(&self, id: TaskId) -> Result<Option<TaskRecord>> {
        self.store.get(&self.at, &self.name, id).await
    }

    /// A page of tasks.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the cursor is not one of this list.
    pub async fn list(&self, filter: Filter) -> Result<Page> {
        self.store.list(&self.at, &self.name, filter).await
    }

    /// Counts by state and oldest ages, at a cost that does not grow with the backlog.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn stats(&self) -> Result<QueueStats> {
        self.store.stats(&self.at, &self.name).await
    }

    /// Why a task is not running.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if its record is damaged.
    pub async fn explain(&self, id: TaskId) -> Result<Explanation> {
        self.store.explain(&self.at, &self.name, id).await
    }

    /// One bounded step of upkeep: promotes, reclaims, ends keys, removes what is finished and old. Call again while it says
    /// there is more.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn sweep(&self, limits: RetentionLimits) -> Result<SweepReport> {
        self.store.sweep(&self.at, &self.name, limits).await
    }

    /// Compares every index entry, idempotency key and count with the records. Its cost grows with the queue.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn check(&self) -> Result<CheckReport> {
        self.store.check(&self.at, &self.name, false).await
    }

    /// Does the same and puts right what it finds, in one commit: lost index entries and keys come back, stray ones go, damaged
    /// records are set aside as dead.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn repair(&self) -> Result<CheckReport> {
        self.store.check(&self.at, &self.name, true).await
    }

    async fn settle_one(&self, claim: &ClaimedTask, decision: Decision) -> Result<FencedCommit> {
        only(self.settle(vec![Settlement::new(claim, decision)]).await?)?
    }
}

/// The answer to a batch of one.
fn only<T>(answers: Vec<T>) -> Result<T> {
    answers.into_iter().next().ok_or_else(|| Error::new(ErrorKind::Unavailable, "the store gave no answer"))
}
