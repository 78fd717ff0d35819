//! The contract on an ordered keyspace: one verb, one file.

mod amend;
mod app_keys;
mod cancel;
mod check;
mod claim;
pub(crate) mod codec;
mod delete;
mod enqueue;
mod explain;
mod get;
mod grant;
mod head;
mod heartbeat;
#[cfg(any(test, fuzzing))]
pub(crate) mod hostile;
pub(crate) mod keys;
mod lease;
mod leases;
mod legacy;
mod list;
mod pause;
mod record;
mod retry;
mod scope;
mod settle;
mod stats;
mod sweep;
mod unique;
mod wait;
mod workers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::grant::Target;
use self::keys::{QueueKeys, ScopeKeys};
use self::scope::ScopeTxn;
use crate::clock::Clock;
use crate::engine::{Engine, ProgressFn, Txn, View, read, submit};
use crate::error::{Error, Result};
use crate::model::json::Json;
use crate::model::task::TaskId;
use crate::store::{
    Access, Amendment, CheckReport, ClaimRequest, ClaimedTask, Cursor, Effects, EnqueueOutcome, Explanation,
    FencedCommit, Filter, GrantTarget, Heartbeat, HeartbeatOutcome, HeldLease, KeyRange, LeaseLength, LeaseOutcome,
    LeasePage, LeaseRecord, LiveWorker, NewTask, Page, Place, QueueStats, RenewOutcome, RetentionLimits, Settlement,
    Store, SweepReport, TaskRecord, WaitOutcome,
};
use crate::time::Timestamp;

/// A store on an engine.
#[derive(Debug)]
pub(crate) struct KvStore {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    callers_required: bool,
}

impl KvStore {
    pub(crate) fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, callers_required: bool) -> Self {
        Self { engine, clock, callers_required }
    }

    /// Runs a verb that writes, after the caller was checked.
    async fn write<T: Send + 'static>(
        &self,
        at: &Place,
        target: Target,
        verb: impl FnOnce(&mut ScopeTxn<'_, '_>) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        let (at, required) = (at.clone(), self.callers_required);
        submit(self.engine.as_ref(), at.caller.clone(), move |txn: &mut Txn<'_>| {
            grant::allow(txn, &at, required, &target, Access::Write)?;
            let mut scope = ScopeTxn::new(txn, at, required);
            let answer = verb(&mut scope)?;
            scope.flush();
            Ok(answer)
        })
        .await
    }

    /// Runs a verb that reads, after the caller was checked.
    fn read<T>(&self, at: &Place, target: &Target, verb: impl FnOnce(&dyn View, Timestamp) -> Result<T>) -> Result<T> {
        read(self.engine.as_ref(), |view, now| {
            grant::allow(view, at, self.callers_required, target, Access::Read)?;
            verb(view, now)
        })
    }
}

fn queue_keys(at: &Place, queue: &str) -> QueueKeys {
    ScopeKeys::new(&at.project, &at.scope).queue(queue)
}

#[async_trait]
impl Store for KvStore {
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    async fn enqueue(
        &self,
        at: &Place,
        queue: &str,
        tasks: Vec<NewTask>,
        effects: Effects,
    ) -> Result<Vec<EnqueueOutcome>> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| enqueue::enqueue(scope, &keys, tasks, effects)).await
    }

    async fn claim(&self, at: &Place, queue: &str, request: ClaimRequest) -> Result<Vec<ClaimedTask>> {
        claim::submit(&self.engine, self.clock.now(), at, self.callers_required, queue, request).await
    }

    async fn settle(&self, at: &Place, queue: &str, items: Vec<Settlement>) -> Result<Vec<Result<FencedCommit>>> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| settle::settle(scope, &keys, items)).await
    }

    async fn heartbeat(&self, at: &Place, queue: &str, items: Vec<Heartbeat>) -> Result<Vec<HeartbeatOutcome>> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| heartbeat::heartbeat(scope, &keys, items)).await
    }

    async fn cancel(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| cancel::cancel(scope, &keys, &ids)).await
    }

    async fn amend(&self, at: &Place, queue: &str, ids: Vec<TaskId>, amendment: Amendment) -> Result<Vec<bool>> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| amend::amend(scope, &keys, &ids, &amendment.terms)).await
    }

    async fn retry(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| retry::retry(scope, &keys, &ids)).await
    }

    async fn delete(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| delete::delete(scope, &keys, &ids)).await
    }

    async fn pause(&self, at: &Place, queue: &str, paused: bool) -> Result<()> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| pause::pause(scope, &keys, paused)).await
    }

    async fn get(&self, at: &Place, queue: &str, id: TaskId) -> Result<Option<TaskRecord>> {
        let keys = queue_keys(at, queue);
        self.read(at, &Target::queue(queue), |view, _| get::get(view, &keys, &queue.into(), id))
    }

    async fn wait_for(&self, at: &Place, queue: &str, id: TaskId, timeout: Duration) -> Result<WaitOutcome> {
        let (keys, name) = (queue_keys(at, queue), Arc::<str>::from(queue));
        let (now, gives_up) = (self.clock.now(), self.clock.now().saturating_add(timeout));
        let first = self.read(at, &Target::queue(queue), |view, _| wait::look(view, &keys, &name, id))?;
        if !matches!(first, WaitOutcome::Pending(_)) || gives_up <= now || !self.engine.serves_waiting() {
            return Ok(first);
        }
        wait::submit(self.engine.as_ref(), at.clone(), self.callers_required, (keys, name), id, gives_up).await
    }

    async fn list(&self, at: &Place, queue: &str, filter: Filter) -> Result<Page> {
        let keys = queue_keys(at, queue);
        self.read(at, &Target::queue(queue), |view, _| list::list(view, &keys, &queue.into(), &filter))
    }

    async fn stats(&self, at: &Place, queue: &str) -> Result<QueueStats> {
        let keys = queue_keys(at, queue);
        self.read(at, &Target::queue(queue), |view, _| stats::stats(view, &keys))
    }

    async fn queues(&self, at: &Place) -> Result<Vec<String>> {
        let keys = ScopeKeys::new(&at.project, &at.scope);
        self.read(at, &Target::Scope, |view, _| stats::queues(view, &keys))
    }

    async fn explain(&self, at: &Place, queue: &str, id: TaskId) -> Result<Explanation> {
        let keys = queue_keys(at, queue);
        let scope = ScopeKeys::new(&at.project, &at.scope);
        self.read(at, &Target::queue(queue), |view, now| {
            let unserved = |task: &str| workers::is_unserved(view, &scope, now, queue, task);
            explain::explain(view, &keys, id, unserved)
        })
    }

    async fn acquire(
        &self,
        at: &Place,
        name: &str,
        owner: &str,
        length: LeaseLength,
        note: Option<Json>,
    ) -> Result<LeaseOutcome> {
        let (name, owner) = (name.into(), owner.into());
        self.write(at, Target::Scope, move |scope| lease::acquire(scope, name, owner, length, note)).await
    }

    async fn renew(&self, at: &Place, held: &HeldLease, length: LeaseLength) -> Result<RenewOutcome> {
        let held = held.clone();
        self.write(at, Target::Scope, move |scope| lease::renew(scope, &held, length)).await
    }

    async fn release(&self, at: &Place, held: &HeldLease) -> Result<()> {
        let held = held.clone();
        self.write(at, Target::Scope, move |scope| lease::release(scope, &held)).await
    }

    async fn guarded_commit(&self, at: &Place, held: &HeldLease, effects: Effects) -> Result<FencedCommit> {
        let held = held.clone();
        self.write(at, Target::Scope, move |scope| lease::guarded_commit(scope, &held, effects)).await
    }

    async fn leases(&self, at: &Place, prefix: &str, after: Option<Cursor>, limit: usize) -> Result<LeasePage> {
        let keys = ScopeKeys::new(&at.project, &at.scope);
        self.read(at, &Target::Scope, |view, _| leases::leases(view, &keys, prefix, after.as_ref(), limit))
    }

    async fn workers(&self, at: &Place) -> Result<Vec<LiveWorker>> {
        let keys = ScopeKeys::new(&at.project, &at.scope);
        self.read(at, &Target::Scope, |view, now| workers::workers(view, &keys, now))
    }

    async fn lease_status(&self, at: &Place, name: &str) -> Result<Option<LeaseRecord>> {
        let keys = ScopeKeys::new(&at.project, &at.scope);
        self.read(at, &Target::Scope, |view, _| lease::status(view, &keys, name))
    }

    async fn key_get(&self, at: &Place, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let keys = ScopeKeys::new(&at.project, &at.scope);
        self.read(at, &Target::Key(key.to_vec()), |view, _| view.get(&keys.application(key)))
    }

    async fn key_scan(&self, at: &Place, range: KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let keys = ScopeKeys::new(&at.project, &at.scope);
        self.read(at, &Target::Key(range.prefix.clone()), |view, _| app_keys::scan(view, &keys, &range))
    }

    async fn commit(&self, at: &Place, effects: Effects) -> Result<()> {
        self.write(at, Target::Effects, move |scope| app_keys::apply(scope, effects)).await
    }

    async fn grant(&self, caller: &str, target: GrantTarget, access: Option<Access>) -> Result<()> {
        let caller: Arc<str> = caller.into();
        submit(self.engine.as_ref(), None, move |txn| {
            if txn.is_aedb() {
                return Err(Error::invalid("AEDB keeps the permissions: grant them there"));
            }
            grant::grant(txn, &caller, &target, access);
            Ok(())
        })
        .await
    }

    async fn sweep(&self, at: &Place, queue: &str, limits: RetentionLimits) -> Result<SweepReport> {
        let keys = queue_keys(at, queue);
        self.write(at, Target::queue(queue), move |scope| sweep::sweep(scope, &keys, limits)).await
    }

    async fn check(&self, at: &Place, queue: &str, repair: bool) -> Result<CheckReport> {
        let keys = queue_keys(at, queue);
        if repair {
            return self.write(at, Target::queue(queue), move |scope| check::repair(scope, &keys)).await;
        }
        self.read(at, &Target::queue(queue), |view, _| check::check(view, &keys))
    }

    fn backup(&self, to: &Path, progress: ProgressFn<'_>) -> Result<()> {
        self.engine.backup(to, progress)
    }

    fn compact(&self, progress: ProgressFn<'_>) -> Result<bool> {
        self.engine.compact(progress)
    }
}
