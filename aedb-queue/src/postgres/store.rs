//! The store's methods, each of which is a verb of its own file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::by_hand::{ByHand, Hand, Pause};
use super::grant::{Grant, Target};
use super::{PgStore, app_keys, claim, enqueue, heartbeat, inspect, lease, list, settle, upkeep, wait, workers};
use crate::clock::Clock;
use crate::engine::ProgressFn;
use crate::error::{Error, Result};
use crate::model::json::Json;
use crate::model::task::TaskId;
use crate::store::{
    Access, Amendment, CheckReport, ClaimRequest, ClaimedTask, Cursor, Effects, EnqueueOutcome, Explanation,
    FencedCommit, Filter, GrantTarget, Heartbeat, HeartbeatOutcome, HeldLease, KeyRange, LeaseLength, LeaseOutcome,
    LeasePage, LeaseRecord, LiveWorker, NewTask, Page, Place, QueueStats, RenewOutcome, RetentionLimits, Settlement,
    Store, SweepReport, TaskRecord, WaitOutcome,
};

impl PgStore {
    async fn by_hand(&self, at: &Place, queue: &str, ids: Vec<TaskId>, hand: Hand) -> Result<Vec<bool>> {
        let verb = ByHand { at: at.clone(), queue: queue.to_owned(), ids, hand };
        self.call(at, of(queue), verb).await
    }
}

fn of(queue: &str) -> Target {
    Target::Queue(queue.to_owned())
}

#[async_trait]
impl Store for PgStore {
    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock.clone().unwrap_or_else(|| Arc::clone(&self.0.server_clock) as Arc<dyn Clock>)
    }

    async fn enqueue(
        &self,
        at: &Place,
        queue: &str,
        tasks: Vec<NewTask>,
        effects: Effects,
    ) -> Result<Vec<EnqueueOutcome>> {
        if self.0.gathers && effects.is_empty() && at.caller.is_none() {
            return self.gathered(at, queue, tasks).await;
        }
        let verb = enqueue::Enqueue { at: at.clone(), queue: queue.to_owned(), tasks, effects };
        self.call(at, of(queue), verb).await
    }

    async fn claim(&self, at: &Place, queue: &str, request: ClaimRequest) -> Result<Vec<ClaimedTask>> {
        claim::claim(self, at, queue, request).await
    }

    async fn settle(&self, at: &Place, queue: &str, items: Vec<Settlement>) -> Result<Vec<Result<FencedCommit>>> {
        let verb = settle::Settle { at: at.clone(), queue: queue.to_owned(), items };
        self.call(at, of(queue), verb).await
    }

    async fn heartbeat(&self, at: &Place, queue: &str, items: Vec<Heartbeat>) -> Result<Vec<HeartbeatOutcome>> {
        let verb = heartbeat::Beat { at: at.clone(), queue: queue.to_owned(), items };
        self.call(at, of(queue), verb).await
    }

    async fn cancel(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        self.by_hand(at, queue, ids, Hand::Cancel).await
    }

    async fn amend(&self, at: &Place, queue: &str, ids: Vec<TaskId>, amendment: Amendment) -> Result<Vec<bool>> {
        self.by_hand(at, queue, ids, Hand::Amend(amendment)).await
    }

    async fn retry(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        self.by_hand(at, queue, ids, Hand::Retry).await
    }

    async fn delete(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
        self.by_hand(at, queue, ids, Hand::Delete).await
    }

    async fn pause(&self, at: &Place, queue: &str, paused: bool) -> Result<()> {
        self.call(at, of(queue), Pause { at: at.clone(), queue: queue.to_owned(), paused }).await
    }

    async fn get(&self, at: &Place, queue: &str, id: TaskId) -> Result<Option<TaskRecord>> {
        self.call(at, of(queue), inspect::Get { at: at.clone(), queue: queue.into(), id }).await
    }

    async fn wait_for(&self, at: &Place, queue: &str, id: TaskId, timeout: Duration) -> Result<WaitOutcome> {
        wait::wait(self, at, queue, id, timeout).await
    }

    async fn list(&self, at: &Place, queue: &str, filter: Filter) -> Result<Page> {
        self.call(at, of(queue), list::List { at: at.clone(), queue: queue.into(), filter }).await
    }

    async fn stats(&self, at: &Place, queue: &str) -> Result<QueueStats> {
        self.call(at, of(queue), inspect::Stats { at: at.clone(), queue: queue.to_owned() }).await
    }

    async fn queues(&self, at: &Place) -> Result<Vec<String>> {
        self.call(at, Target::Scope, inspect::Queues { at: at.clone() }).await
    }

    async fn explain(&self, at: &Place, queue: &str, id: TaskId) -> Result<Explanation> {
        self.call(at, of(queue), inspect::Explain { at: at.clone(), queue: queue.into(), id }).await
    }

    async fn acquire(
        &self,
        at: &Place,
        name: &str,
        owner: &str,
        length: LeaseLength,
        note: Option<Json>,
    ) -> Result<LeaseOutcome> {
        let verb = lease::Acquire { at: at.clone(), name: name.into(), owner: owner.into(), length, note };
        self.call(at, Target::Scope, verb).await
    }

    async fn renew(&self, at: &Place, held: &HeldLease, length: LeaseLength) -> Result<RenewOutcome> {
        self.call(at, Target::Scope, lease::Renew { at: at.clone(), held: held.clone(), length }).await
    }

    async fn release(&self, at: &Place, held: &HeldLease) -> Result<()> {
        self.call(at, Target::Scope, lease::Release { at: at.clone(), held: held.clone() }).await
    }

    async fn guarded_commit(&self, at: &Place, held: &HeldLease, effects: Effects) -> Result<FencedCommit> {
        self.call(at, Target::Scope, lease::Guarded { at: at.clone(), held: held.clone(), effects }).await
    }

    async fn leases(&self, at: &Place, prefix: &str, after: Option<Cursor>, limit: usize) -> Result<LeasePage> {
        let verb = lease::Leases { at: at.clone(), prefix: prefix.to_owned(), after, limit };
        self.call(at, Target::Scope, verb).await
    }

    async fn workers(&self, at: &Place) -> Result<Vec<LiveWorker>> {
        self.call(at, Target::Scope, workers::Workers { at: at.clone() }).await
    }

    async fn lease_status(&self, at: &Place, name: &str) -> Result<Option<LeaseRecord>> {
        self.call(at, Target::Scope, lease::Status { at: at.clone(), name: name.to_owned() }).await
    }

    async fn key_get(&self, at: &Place, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.call(at, Target::Key(key.to_vec()), app_keys::Get { at: at.clone(), key: key.to_vec() }).await
    }

    async fn key_scan(&self, at: &Place, range: KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.call(at, Target::Key(range.prefix.clone()), app_keys::Scan { at: at.clone(), range }).await
    }

    async fn commit(&self, at: &Place, effects: Effects) -> Result<()> {
        self.call(at, Target::Effects, app_keys::Commit { at: at.clone(), effects }).await
    }

    async fn grant(&self, caller: &str, target: GrantTarget, access: Option<Access>) -> Result<()> {
        let (store, verb) = (self.clone(), Grant { caller: caller.to_owned(), target, access });
        self.detached(async move { store.by_operator(&verb).await }).await
    }

    async fn sweep(&self, at: &Place, queue: &str, limits: RetentionLimits) -> Result<SweepReport> {
        self.call(at, of(queue), upkeep::Sweep { at: at.clone(), queue: queue.to_owned(), limits }).await
    }

    async fn check(&self, at: &Place, queue: &str, repair: bool) -> Result<CheckReport> {
        let (own, name) = (at.clone(), queue.to_owned());
        if repair {
            self.call(at, of(queue), upkeep::Check::<true> { at: own, queue: name }).await
        } else {
            self.call(at, of(queue), upkeep::Check::<false> { at: own, queue: name }).await
        }
    }

    fn backup(&self, _to: &Path, _progress: ProgressFn<'_>) -> Result<()> {
        Err(Error::invalid("a database on a server is backed up with the server's own tools, such as pg_dump"))
    }

    fn compact(&self, _progress: ProgressFn<'_>) -> Result<bool> {
        Err(Error::invalid("a database on a server is compacted by its own vacuum"))
    }
}
