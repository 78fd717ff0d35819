//! A store that asks for faults before each call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::store::{
    Access, Amendment, CheckReport, ClaimRequest, ClaimedTask, Cursor, Effects, EnqueueOutcome, Explanation,
    FencedCommit, Filter, GrantTarget, Heartbeat, HeartbeatOutcome, HeldLease, KeyRange, LeaseLength, LeaseOutcome,
    LeasePage, LeaseRecord, LiveWorker, NewTask, Page, Place, QueueStats, RenewOutcome, RetentionLimits, Settlement,
    Store, SweepReport, TaskRecord, WaitOutcome,
};
use aedb_queue::{Clock, Json, ProgressFn, Result, TaskId};
use async_trait::async_trait;

use super::faults::{Faults, Verb};

#[derive(Debug)]
pub(super) struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Faults,
}

impl FaultyStore {
    pub(super) fn new(inner: Arc<dyn Store>, faults: Faults) -> Self {
        Self { inner, faults }
    }
}

/// Each method passes its arguments on, between the fault before it and the fault after it.
macro_rules! pass {
    ($self:ident, $verb:ident, $($call:tt)+) => {{
        let fate = $self.faults.before(Verb::$verb).await?;
        Faults::after(fate, $self.inner.$($call)+.await).await
    }};
}

#[async_trait]
impl Store for FaultyStore {
    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    async fn enqueue(
        &self,
        at: &Place,
        queue: &str,
        tasks: Vec<NewTask>,
        effects: Effects,
    ) -> Result<Vec<EnqueueOutcome>> {
        pass!(self, Enqueue, enqueue(at, queue, tasks, effects))
    }

    async fn claim(&self, at: &Place, queue: &str, request: ClaimRequest) -> Result<Vec<ClaimedTask>> {
        pass!(self, Claim, claim(at, queue, request))
    }

    async fn settle(&self, at: &Place, queue: &str, items: Vec<Settlement>) -> Result<Vec<Result<FencedCommit>>> {
        pass!(self, Settle, settle(at, queue, items))
    }

    async fn heartbeat(&self, at: &Place, queue: &str, items: Vec<Heartbeat>) -> Result<Vec<HeartbeatOutcome>> {
        pass!(self, Heartbeat, heartbeat(at, queue, items))
    }

    async fn cancel(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        pass!(self, Cancel, cancel(at, queue, ids))
    }

    async fn amend(&self, at: &Place, queue: &str, ids: Vec<TaskId>, amendment: Amendment) -> Result<Vec<bool>> {
        pass!(self, Amend, amend(at, queue, ids, amendment))
    }

    async fn retry(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        pass!(self, Retry, retry(at, queue, ids))
    }

    async fn delete(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        pass!(self, Delete, delete(at, queue, ids))
    }

    async fn pause(&self, at: &Place, queue: &str, paused: bool) -> Result<()> {
        pass!(self, Pause, pause(at, queue, paused))
    }

    async fn get(&self, at: &Place, queue: &str, id: TaskId) -> Result<Option<TaskRecord>> {
        pass!(self, Read, get(at, queue, id))
    }

    async fn wait_for(&self, at: &Place, queue: &str, id: TaskId, timeout: Duration) -> Result<WaitOutcome> {
        pass!(self, Read, wait_for(at, queue, id, timeout))
    }

    async fn list(&self, at: &Place, queue: &str, filter: Filter) -> Result<Page> {
        pass!(self, Read, list(at, queue, filter))
    }

    async fn stats(&self, at: &Place, queue: &str) -> Result<QueueStats> {
        pass!(self, Read, stats(at, queue))
    }

    async fn queues(&self, at: &Place) -> Result<Vec<String>> {
        pass!(self, Read, queues(at))
    }

    async fn explain(&self, at: &Place, queue: &str, id: TaskId) -> Result<Explanation> {
        pass!(self, Read, explain(at, queue, id))
    }

    async fn acquire(
        &self,
        at: &Place,
        name: &str,
        owner: &str,
        length: LeaseLength,
        note: Option<Json>,
    ) -> Result<LeaseOutcome> {
        pass!(self, Acquire, acquire(at, name, owner, length, note))
    }

    async fn renew(&self, at: &Place, held: &HeldLease, length: LeaseLength) -> Result<RenewOutcome> {
        pass!(self, Renew, renew(at, held, length))
    }

    async fn release(&self, at: &Place, held: &HeldLease) -> Result<()> {
        pass!(self, Release, release(at, held))
    }

    async fn guarded_commit(&self, at: &Place, held: &HeldLease, effects: Effects) -> Result<FencedCommit> {
        pass!(self, GuardedCommit, guarded_commit(at, held, effects))
    }

    async fn leases(&self, at: &Place, prefix: &str, after: Option<Cursor>, limit: usize) -> Result<LeasePage> {
        pass!(self, Read, leases(at, prefix, after, limit))
    }

    async fn workers(&self, at: &Place) -> Result<Vec<LiveWorker>> {
        pass!(self, Read, workers(at))
    }

    async fn lease_status(&self, at: &Place, name: &str) -> Result<Option<LeaseRecord>> {
        pass!(self, Read, lease_status(at, name))
    }

    async fn key_get(&self, at: &Place, key: &[u8]) -> Result<Option<Vec<u8>>> {
        pass!(self, Read, key_get(at, key))
    }

    async fn key_scan(&self, at: &Place, range: KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        pass!(self, Read, key_scan(at, range))
    }

    async fn commit(&self, at: &Place, effects: Effects) -> Result<()> {
        pass!(self, Commit, commit(at, effects))
    }

    async fn grant(&self, caller: &str, target: GrantTarget, access: Option<Access>) -> Result<()> {
        pass!(self, Grant, grant(caller, target, access))
    }

    async fn sweep(&self, at: &Place, queue: &str, limits: RetentionLimits) -> Result<SweepReport> {
        pass!(self, Sweep, sweep(at, queue, limits))
    }

    async fn check(&self, at: &Place, queue: &str, repair: bool) -> Result<CheckReport> {
        pass!(self, Check, check(at, queue, repair))
    }

    fn backup(&self, to: &Path, progress: ProgressFn<'_>) -> Result<()> {
        self.inner.backup(to, progress)
    }

    fn compact(&self, progress: ProgressFn<'_>) -> Result<bool> {
        self.inner.compact(progress)
    }
}
