//! A store that watches another: before and after each call it looks at what the call is about, and holds the answer against the
//! contract.
//!
//! The database is inline and everything runs in one thread, so that nothing comes between a look and its call.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aedb_queue::store::{Amendment, Place, Store};
use aedb_queue::{
    Access, CheckReport, ClaimRequest, ClaimedTask, Clock, Cursor, Db, Effects, EnqueueOutcome, Explanation,
    FencedCommit, Filter, GrantTarget, Heartbeat, HeartbeatOutcome, HeldLease, Json, KeyRange, LeaseLength,
    LeaseOutcome, LeasePage, LeaseRecord, LiveWorker, NewTask, Page, ProgressFn, QueueStats, RenewOutcome, Result,
    RetentionLimits, Settlement, StateKind, SweepReport, TaskId, TaskRecord, TaskState, WaitOutcome,
};
use async_trait::async_trait;

use super::truth::{Settled, Truth};

/// The watcher.
#[derive(Debug)]
pub(crate) struct Oracle {
    inner: Arc<dyn Store>,
    truth: Arc<Mutex<Truth>>,
}

impl Oracle {
    /// The same database, watched.
    pub(crate) fn watch(db: &Db, truth: &Arc<Mutex<Truth>>) -> Db {
        Db::with_store(Arc::new(Self { inner: Arc::clone(db.store()), truth: Arc::clone(truth) }))
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap()
    }

    /// The record, if it can be read: a disk that has failed may not be able to.
    async fn look(&self, at: &Place, queue: &str, id: TaskId) -> Option<TaskRecord> {
        self.inner.get(at, queue, id).await.ok().flatten()
    }

    async fn look_at_all(&self, at: &Place, queue: &str, ids: &[TaskId]) -> Vec<Option<TaskRecord>> {
        let mut records = Vec::new();
        for id in ids {
            records.push(self.look(at, queue, *id).await);
        }
        records
    }
}

/// Implements `Store`: what is only passed on, a line each, and what is watched.
macro_rules! store {
    (
        passes on { $(fn $verb:ident($($arg:ident: $of:ty),*) -> $answer:ty;)* }
        watches { $($watched:tt)* }
    ) => {
        #[async_trait]
        impl Store for Oracle {
            fn clock(&self) -> Arc<dyn Clock> {
                self.inner.clock()
            }

            $(async fn $verb(&self, at: &Place, $($arg: $of),*) -> Result<$answer> {
                self.inner.$verb(at, $($arg),*).await
            })*

            async fn grant(&self, caller: &str, target: GrantTarget, access: Option<Access>) -> Result<()> {
                self.inner.grant(caller, target, access).await
            }

            fn backup(&self, to: &Path, progress: ProgressFn<'_>) -> Result<()> {
                self.inner.backup(to, progress)
            }

            fn compact(&self, progress: ProgressFn<'_>) -> Result<bool> {
                self.inner.compact(progress)
            }

            $($watched)*
        }
    };
}

store! {
    passes on {
        fn delete(queue: &str, ids: Vec<TaskId>) -> Vec<bool>;
        fn pause(queue: &str, paused: bool) -> ();
        fn get(queue: &str, id: TaskId) -> Option<TaskRecord>;
        fn wait_for(queue: &str, id: TaskId, timeout: Duration) -> WaitOutcome;
        fn list(queue: &str, filter: Filter) -> Page;
        fn stats(queue: &str) -> QueueStats;
        fn queues() -> Vec<String>;
        fn explain(queue: &str, id: TaskId) -> Explanation;
        fn renew(held: &HeldLease, length: LeaseLength) -> RenewOutcome;
        fn release(held: &HeldLease) -> ();
        fn leases(prefix: &str, after: Option<Cursor>, limit: usize) -> LeasePage;
        fn workers() -> Vec<LiveWorker>;
        fn lease_status(name: &str) -> Option<LeaseRecord>;
        fn key_get(key: &[u8]) -> Option<Vec<u8>>;
        fn key_scan(range: KeyRange) -> Vec<(Vec<u8>, Vec<u8>)>;
        fn commit(effects: Effects) -> ();
        fn check(queue: &str, repair: bool) -> CheckReport;
    }
    watches {
        async fn enqueue(
            &self,
            at: &Place,
            queue: &str,
            tasks: Vec<NewTask>,
            effects: Effects,
        ) -> Result<Vec<EnqueueOutcome>> {
            let outcomes = self.inner.enqueue(at, queue, tasks, effects).await?;
            let ids: Vec<_> = outcomes.iter().map(|outcome| outcome.id).collect();
            let records = self.look_at_all(at, queue, &ids).await;
            let mut truth = self.truth();
            outcomes.iter().zip(records).for_each(|(outcome, record)| truth.enqueued(outcome, record.as_ref()));
            Ok(outcomes)
        }

        async fn claim(&self, at: &Place, queue: &str, request: ClaimRequest) -> Result<Vec<ClaimedTask>> {
            let tasks = self.inner.claim(at, queue, request).await?;
            let mut served = None;
            for task in &tasks {
                let record = self.look(at, queue, task.id).await;
                if let Some(TaskRecord { state: TaskState::InFlight { owner, claimed, .. }, token, .. }) = &record
                    && *token == task.token
                {
                    served = served.or(Some(*claimed));
                    self.truth().claimed(task, owner, record.as_ref(), self.clock().now());
                }
            }
            if let Some(served) = served
                && let Ok(ready) = self.inner.list(at, queue, Filter::state(StateKind::Ready)).await
            {
                self.truth().in_order(&tasks, &ready.tasks, served);
            }
            Ok(tasks)
        }

        async fn settle(&self, at: &Place, queue: &str, items: Vec<Settlement>) -> Result<Vec<Result<FencedCommit>>> {
            let ids: Vec<_> = items.iter().map(|item| item.id).collect();
            let before = self.look_at_all(at, queue, &ids).await;
            let answers = self.inner.settle(at, queue, items.clone()).await?;
            let after = self.look_at_all(at, queue, &ids).await;
            let mut truth = self.truth();
            for (((item, before), after), answer) in items.iter().zip(&before).zip(&after).zip(&answers) {
                let alone = ids.iter().filter(|id| **id == item.id).count() == 1;
                truth.settled(&Settled { item, before: before.as_ref(), after: after.as_ref(), alone }, answer);
            }
            drop(truth);
            Ok(answers)
        }

        async fn heartbeat(&self, at: &Place, queue: &str, beats: Vec<Heartbeat>) -> Result<Vec<HeartbeatOutcome>> {
            let ids: Vec<_> = beats.iter().map(|beat| beat.id).collect();
            let before = self.look_at_all(at, queue, &ids).await;
            let answers = self.inner.heartbeat(at, queue, beats.clone()).await?;
            let after = self.look_at_all(at, queue, &ids).await;
            let mut truth = self.truth();
            for (((beat, before), after), answer) in beats.iter().zip(&before).zip(&after).zip(&answers) {
                if ids.iter().filter(|id| **id == beat.id).count() == 1 {
                    truth.beaten(beat, before.as_ref(), after.as_ref(), *answer);
                }
            }
            drop(truth);
            Ok(answers)
        }

        async fn cancel(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
            let before = self.look_at_all(at, queue, &ids).await;
            let answers = self.inner.cancel(at, queue, ids.clone()).await?;
            let after = self.look_at_all(at, queue, &ids).await;
            let mut truth = self.truth();
            for (((id, before), after), answer) in ids.iter().zip(&before).zip(&after).zip(&answers) {
                truth.cancelled(*id, before.as_ref(), after.as_ref(), *answer);
            }
            drop(truth);
            Ok(answers)
        }

        async fn amend(&self, at: &Place, queue: &str, ids: Vec<TaskId>, amendment: Amendment) -> Result<Vec<bool>> {
            let before = self.look_at_all(at, queue, &ids).await;
            let answers = self.inner.amend(at, queue, ids.clone(), amendment).await?;
            let after = self.look_at_all(at, queue, &ids).await;
            before.iter().zip(&after).for_each(|(before, after)| self.truth().changed(before.as_ref(), after.as_ref()));
            Ok(answers)
        }

        async fn retry(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>> {
            let before = self.look_at_all(at, queue, &ids).await;
            let answers = self.inner.retry(at, queue, ids.clone()).await?;
            let after = self.look_at_all(at, queue, &ids).await;
            before.iter().zip(&after).for_each(|(before, after)| self.truth().changed(before.as_ref(), after.as_ref()));
            Ok(answers)
        }

        async fn acquire(
            &self,
            at: &Place,
            name: &str,
            owner: &str,
            length: LeaseLength,
            note: Option<Json>,
        ) -> Result<LeaseOutcome> {
            let before = self.inner.lease_status(at, name).await.ok().flatten();
            let now = self.clock().now();
            let outcome = self.inner.acquire(at, name, owner, length, note).await?;
            if let LeaseOutcome::Acquired(held) = &outcome {
                let taken = before.is_some_and(|before| before.is_held(now) && before.owner.as_deref() != Some(owner));
                let mut truth = self.truth();
                truth.acquired(&held.name, held.token.as_u64());
                if taken {
                    truth.breaks(format!("{owner} has the lease {name}, which somebody held"));
                }
            }
            Ok(outcome)
        }

        async fn guarded_commit(&self, at: &Place, held: &HeldLease, effects: Effects) -> Result<FencedCommit> {
            let before = self.inner.lease_status(at, &held.name).await.ok().flatten();
            let now = self.clock().now();
            let current = before.is_some_and(|before| before.is_held(now) && before.token == held.token);
            let answer = self.inner.guarded_commit(at, held, effects).await?;
            self.truth().guarded(&held.name, current, answer);
            Ok(answer)
        }

        async fn sweep(&self, at: &Place, queue: &str, limits: RetentionLimits) -> Result<SweepReport> {
            let report = self.inner.sweep(at, queue, limits).await?;
            for record in self.look_at_all(at, queue, &report.died).await.iter().flatten() {
                self.truth().died(record);
            }
            Ok(report)
        }
    }
}
