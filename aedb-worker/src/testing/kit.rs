//! A database in memory on a clock that moves when told to, and a worker that runs step by step.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aedb_queue::{
    ClaimRequest, ClaimedTask, Clock as _, Db, Decision, Error, ErrorKind, FencedCommit, Filter, LeaseLength,
    ManualClock, Queue, Result, RetentionLimits, Retry, Settlement, StateKind, TaskId, TaskState,
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::context::LEASE;
use super::faults::{Fault, Faults};
use crate::context::{Keeper, TaskContext};
use crate::run::attempt;
use crate::worker::{Parts, Worker};

/// A database in memory on a clock that moves when told to, for tests of an application's tasks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Kit {
    db: Db,
    beneath: Db,
    clock: ManualClock,
    faults: Faults,
}

impl Kit {
    /// An empty database.
    ///
    /// # Errors
    ///
    /// As [`Db::memory`].
    pub fn new() -> Result<Self> {
        let clock = ManualClock::default();
        let beneath = Db::builder().clock(clock.clone()).inline().memory()?;
        let faults = Faults::new();
        Ok(Self { db: faults.on(&beneath), beneath, clock, faults })
    }

    /// The database, for the application's own code and its workers.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// A queue of the default scope.
    ///
    /// # Errors
    ///
    /// As [`Db::queue`].
    pub fn queue(&self, name: &str) -> Result<Queue> {
        self.db.queue(name)
    }

    /// The clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Lets time pass.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// What goes wrong; see [`Kit::fail_commit`] for the usual.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Lets the `n`th call that writes from now on fail, with nothing applied.
    pub fn fail_commit(&self, n: u64) {
        let at = self.faults.writes() + n;
        self.faults.plan(move |call| (call.write == Some(at)).then_some(Fault::Fail));
    }

    /// Runs everything that is due on a worker's queues, and what becomes due meanwhile, one attempt after the other on the
    /// calling task. Answers how many attempts ran. Handlers' timeouts, heartbeats and prefetch play no part.
    ///
    /// # Errors
    ///
    /// The store's, if a call failed: then what was claimed stays so, as after a crash.
    pub async fn drain(&self, worker: &Worker) -> Result<usize> {
        self.run_due(worker.parts(), false).await
    }

    /// The same, and then lets time pass to what is scheduled next, until nothing is: retries, snoozes and delayed tasks too.
    ///
    /// # Errors
    ///
    /// As [`Kit::drain`].
    pub async fn drain_scheduled(&self, worker: &Worker) -> Result<usize> {
        let (parts, mut ran) = (worker.parts(), 0);
        loop {
            ran += self.run_due(parts, false).await?;
            let mut next = None;
            for line in &parts.lines {
                next = line.queue.stats().await?.next_due.into_iter().chain(next).min();
            }
            let Some(due) = next else { return Ok(ran) };
            self.advance(due.saturating_since(self.clock.now()));
        }
    }

    /// As [`Kit::drain`], but each task's first attempt loses its lease after its handler returned and before its outcome is
    /// written: whatever it decided must leave nothing, and the task runs again.
    ///
    /// # Errors
    ///
    /// As [`Kit::drain`].
    pub async fn drain_losing_leases(&self, worker: &Worker) -> Result<usize> {
        self.run_due(worker.parts(), true).await
    }

    async fn run_due(&self, parts: &Parts, lose: bool) -> Result<usize> {
        let mut ran = 0;
        loop {
            let before = ran;
            for (number, line) in parts.lines.iter().enumerate() {
                let request = ClaimRequest::new("kit", LeaseLength::of(LEASE)).names(parts.registry.keys().cloned());
                for task in line.queue.claim(request).await? {
                    ran += 1;
                    let lose = lose && task.counters.deliveries == 1;
                    self.run_one(parts, parts.line(number), task, lose).await?;
                }
            }
            if ran == before {
                return Ok(ran);
            }
        }
    }

    async fn run_one(&self, parts: &Parts, queue: &Queue, task: ClaimedTask, lose: bool) -> Result<()> {
        let Some(found) = parts.registry.get(&task.name) else { return Ok(()) };
        let task = Arc::new(task);
        let keeper = Keeper::Queue { queue: queue.clone(), kv: parts.scope.kv(), lease: LEASE, entry: None };
        let cx = TaskContext::new(Arc::clone(&task), Arc::clone(&parts.states), CancellationToken::new(), keeper);
        let decision = attempt::guarded(parts, found, &cx).await;
        if lose {
            self.steal(queue, task.id).await?;
        }
        let tell = |decision| queue.settle(vec![Settlement::new(&task, decision)]);
        match tell(decision).await?.pop() {
            Some(Err(error)) => {
                let failed = Decision::Fail { error: error.to_string().into(), retry: Retry::ByPolicy };
                tell(failed).await.map(drop)
            }
            Some(Ok(FencedCommit::Applied)) if lose => {
                Err(Error::new(ErrorKind::Corrupt, "a write under a lost lease was applied"))
            }
            _ => Ok(()),
        }
    }

    /// Takes a running task's lease away, as if its worker had slept: time passes to the lease's end, and the task is ready
    /// for somebody else. Call it while the handler runs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if the task is not running.
    pub async fn steal(&self, queue: &Queue, id: TaskId) -> Result<()> {
        let record = queue.get(id).await?;
        let Some(TaskState::InFlight { deadline, .. }) = record.map(|record| record.state) else {
            return Err(Error::new(ErrorKind::NotFound, format!("task {id} does not run")));
        };
        self.advance(deadline.saturating_since(self.clock.now()) + Duration::from_micros(1));
        while queue.sweep(RetentionLimits::default()).await?.more {}
        Ok(())
    }

    /// The payloads of the unfinished tasks of a name, oldest first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if one does not have the form of `I`.
    pub async fn enqueued<I: DeserializeOwned>(&self, queue: &str, name: &str) -> Result<Vec<I>> {
        let (queue, mut found) = (self.beneath.queue(queue)?, Vec::new());
        for state in [StateKind::Scheduled, StateKind::Ready, StateKind::InFlight] {
            let mut filter = Filter::state(state).name(name);
            loop {
                let page = queue.list(filter.clone()).await?;
                found.extend(page.tasks);
                match page.next {
                    Some(next) => filter = filter.after(Some(next)),
                    None => break,
                }
            }
        }
        found.sort_by_key(|task| task.id);
        found.iter().map(|task| task.payload.to()).collect()
    }

    /// Panics unless an unfinished task of this name has a payload that fits.
    ///
    /// # Panics
    ///
    /// If there is none; the message lists what there is.
    pub async fn assert_enqueued<I>(&self, queue: &str, name: &str, fits: impl Fn(&I) -> bool)
    where
        I: DeserializeOwned + std::fmt::Debug,
    {
        let found: Result<Vec<I>> = self.enqueued(queue, name).await;
        let has = found.as_ref().is_ok_and(|found| found.iter().any(fits));
        assert!(has, "no task {name} in the queue {queue} fits; there are: {found:?}");
    }

    /// As after a crash and a restart: faults are over, and all leases have run out.
    fn reopen(&self) {
        self.faults.clear();
        self.advance(Duration::from_hours(24));
    }
}

/// Runs something again and again, each time in a fresh database that crashes at another commit: once just before it is
/// applied, and once just after, with its answer lost. After each crash the database is opened again with all leases run out, and
/// `check` says (by panicking) whether what must hold does. Answers how many commits there were.
///
/// `run` ends early with the store's error, which is what it is for; let it return it.
///
/// # Errors
///
/// If `run` fails without a crash.
pub async fn crash_at_each_commit<R, C>(run: impl Fn(Kit) -> R, check: impl Fn(Kit) -> C) -> Result<u64>
where
    R: Future<Output = Result<()>>,
    C: Future<Output = ()>,
{
    for at in 1.. {
        for fault in [Fault::Fail, Fault::LoseAnswer] {
            let (kit, crashed) = (Kit::new()?, Arc::new(AtomicBool::new(false)));
            let crash = Arc::clone(&crashed);
            kit.faults.plan(move |call| {
                if call.write == Some(at) && !crash.swap(true, Ordering::SeqCst) {
                    return Some(fault.clone());
                }
                crash.load(Ordering::SeqCst).then_some(Fault::Fail)
            });
            let ran = run(kit.clone()).await;
            let crashed = crashed.load(Ordering::SeqCst);
            kit.reopen();
            check(kit).await;
            if !crashed {
                return ran.map(|()| at - 1);
            }
        }
    }
    Ok(0)
}
