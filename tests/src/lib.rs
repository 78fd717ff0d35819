//! What the tests of the contract share: a queue on a clock that stands, a disk that fails, and dice with a seed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

pub mod conformance;
mod dice;
mod disk;
#[cfg(feature = "aedb")]
pub mod instance;
mod planted;
mod power;
#[cfg(feature = "postgres")]
pub mod server;
pub mod stores;
mod summary;

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aedb_queue::{
    ClaimRequest, ClaimedTask, Clock as _, Completion, Counters, Db, Decision, FencedCommit, LeaseLength, ManualClock,
    NewTask, Queue, Result, Settlement, TaskId, TaskRecord, TaskState, Timestamp,
};
use futures::executor::block_on;

pub use dice::{Dice, repetitions, seeds};
pub use disk::FailingDisk;
pub use planted::{PLANTED, PLANTED_IN_SCHEDULES, Planted};
use stores::Opened;

pub use power::{LosingDisk, Lost};

/// What a test has tried, for the table at the end of `tests/run`.
pub fn tell(what: &str, much: &str) {
    summary::tell(what, much);
}

/// The lease of every claim that names no other.
pub const LEASE: Duration = Duration::from_secs(30);

/// A queue in memory, on a clock that moves when told to. When it is dropped, its index, counts and records must agree.
pub struct Shop {
    /// The clock.
    pub clock: ManualClock,
    /// The database.
    pub db: Db,
    /// The queue `q`.
    pub queue: Queue,
    /// What the database needs as long as it is open.
    _kept: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Shop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shop").field("db", &self.db).finish_non_exhaustive()
    }
}

/// Whether the store of this test is a server: then what wakes a waiting call takes a moment, and repetitions cost a disk's time.
pub fn is_served() -> bool {
    stores::current().is_served()
}

impl Default for Shop {
    fn default() -> Self {
        Self::new()
    }
}

impl Shop {
    /// An empty queue, on the store that the test is on.
    pub fn new() -> Self {
        let (builder, clock) = stores::on_a_manual_clock();
        Self::keeping(stores::current().open(builder), clock)
    }

    /// The same on a database that is already open.
    pub fn on(db: Db, clock: ManualClock) -> Self {
        Self::keeping(Opened { db, kept: Box::new(()) }, clock)
    }

    fn keeping(opened: Opened, clock: ManualClock) -> Self {
        let queue = opened.db.queue("q").unwrap();
        Self { clock, db: opened.db, queue, _kept: opened.kept }
    }

    /// Enqueues a task.
    pub fn enqueue(&self, task: NewTask) -> TaskId {
        block_on(self.queue.enqueue(task)).unwrap().id
    }

    /// Claims up to `max` tasks for the worker `w`.
    pub fn claim(&self, max: usize) -> Vec<ClaimedTask> {
        self.claim_as("w", max)
    }

    /// Claims up to `max` tasks for a worker.
    pub fn claim_as(&self, owner: &str, max: usize) -> Vec<ClaimedTask> {
        block_on(self.queue.claim(claims(owner).max(max))).unwrap()
    }

    /// Claims the one task that must be there.
    pub fn claim_one(&self) -> ClaimedTask {
        self.claim(1).pop().unwrap()
    }

    /// Completes a claimed task.
    pub fn complete(&self, claim: &ClaimedTask) -> FencedCommit {
        block_on(self.queue.complete(claim, Completion::new())).unwrap()
    }

    /// Completes all that is due, and what becomes due with it.
    pub fn complete_all(&self) {
        loop {
            let claimed = self.claim(10_000);
            if claimed.is_empty() {
                return;
            }
            let done = |claim: &ClaimedTask| Settlement::new(claim, Decision::Complete(Completion::new()));
            for answer in block_on(self.queue.settle(claimed.iter().map(done).collect())).unwrap() {
                assert!(answer.unwrap().is_applied());
            }
        }
    }

    /// A claim that waits, up to a minute.
    pub fn waits(&self, request: ClaimRequest) -> Claiming<'_> {
        let mut claim: Claiming<'_> = Box::pin(self.queue.claim(request.wait(secs(60))));
        assert!(poll_once(&mut claim).is_pending());
        claim
    }

    /// Fails a claimed task.
    pub fn fail(&self, claim: &ClaimedTask) -> FencedCommit {
        block_on(self.queue.fail(claim, "no")).unwrap()
    }

    /// Lets time pass.
    pub fn pass(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Lets every lease of now run out.
    pub fn outlive_leases(&self) {
        self.pass(LEASE);
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A task's record, which must be there.
    pub fn record(&self, id: TaskId) -> TaskRecord {
        block_on(self.queue.get(id)).unwrap().unwrap()
    }

    /// A task's state.
    pub fn state(&self, id: TaskId) -> TaskState {
        self.record(id).state
    }

    /// A task's counters.
    pub fn counters(&self, id: TaskId) -> Counters {
        self.record(id).counters
    }

    /// The value of an application key, as text.
    pub fn key(&self, key: &str) -> Option<String> {
        let value = block_on(self.db.default_scope().kv().get(key)).unwrap();
        value.map(|bytes| String::from_utf8(bytes).unwrap())
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_clean(&self.queue);
        }
    }
}

/// A claim on its way.
pub type Claiming<'a> = Pin<Box<dyn Future<Output = Result<Vec<ClaimedTask>>> + Send + 'a>>;

/// How many tasks a claim that waits has got, if it is served.
pub fn served(claim: &mut Claiming<'_>) -> Option<usize> {
    match poll_patiently(claim) {
        Poll::Ready(claimed) => Some(claimed.unwrap().len()),
        Poll::Pending => None,
    }
}

/// A task whose payload is a number.
pub fn task(n: u64) -> NewTask {
    NewTask::new("n", &n).unwrap()
}

/// A claim of one task by an owner.
pub fn claims(owner: &str) -> ClaimRequest {
    ClaimRequest::new(owner, LeaseLength::of(LEASE))
}

/// Seconds, in few letters.
pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Asserts that every index entry and count agrees with the records.
pub fn assert_clean(queue: &Queue) {
    let report = block_on(queue.check()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// Polls a future once.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(futures::task::noop_waker_ref()))
}

/// Polls a future until it is ready; once, or, where a server needs its moment, for half a second.
pub fn poll_patiently<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    for _ in 0..if is_served() { 50 } else { 0 } {
        if let Poll::Ready(output) = poll_once(future) {
            return Poll::Ready(output);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    poll_once(future)
}
