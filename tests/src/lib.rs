//! What the tests of the contract share: a queue on a clock that stands, a disk that fails, and dice with a seed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod dice;
mod disk;
mod planted;
mod power;
#[cfg(feature = "postgres")]
pub mod server;
mod summary;

use std::task::{Context, Poll};
use std::time::Duration;

use aedb_queue::{
    ClaimRequest, ClaimedTask, Clock as _, Completion, Counters, Db, FencedCommit, LeaseLength, ManualClock, NewTask,
    Queue, TaskId, TaskRecord, TaskState, Timestamp,
};
use futures::executor::block_on;

use tempfile::TempDir;

pub use dice::{Dice, repetitions, seeds};
pub use disk::FailingDisk;
pub use planted::{PLANTED, PLANTED_IN_SCHEDULES, Planted};
pub use power::{LosingDisk, Lost};

/// What a test has tried, for the table at the end of `tests/run`.
pub fn tell(what: &str, much: &str) {
    summary::tell(what, much);
}

/// The lease of every claim that names no other.
pub const LEASE: Duration = Duration::from_secs(30);

/// A queue in memory, on a clock that moves when told to. When it is dropped, its index, counts and records must agree.
#[derive(Debug)]
pub struct Shop {
    /// The clock.
    pub clock: ManualClock,
    /// The database.
    pub db: Db,
    /// The queue `q`.
    pub queue: Queue,
    /// The folder of a database in a file, which goes with the shop.
    folder: Option<TempDir>,
    /// The schema of a database on a server, which goes too.
    #[cfg(feature = "postgres")]
    schema: Option<server::Schema>,
}

/// The store that [`Shop::new`] opens: `AEDB_STORE` is `memory` (the default), `file`, which several processes may share, or
/// `exclusive`, a file of one process, or, with the feature `postgres`, `postgres`: the server that `AEDB_POSTGRES` names. `tests/run` runs every test on each of them.
pub fn store() -> String {
    std::env::var("AEDB_STORE").unwrap_or_else(|_| "memory".to_owned())
}

/// Whether that store is a server: then what wakes a waiting call takes a moment, and repetitions cost a disk's time.
pub fn is_served() -> bool {
    cfg!(feature = "postgres") && store() == "postgres"
}

impl Default for Shop {
    fn default() -> Self {
        Self::new()
    }
}

impl Shop {
    /// An empty queue, on the store that `AEDB_STORE` names.
    pub fn new() -> Self {
        #[cfg(feature = "postgres")]
        if is_served() {
            return Self::served(Db::builder());
        }
        Self::embedded()
    }

    /// The same, but never on a server: for what only an embedded store promises.
    pub fn embedded() -> Self {
        let (clock, store) = (ManualClock::default(), store());
        let builder = Db::builder().clock(clock.clone()).inline();
        if store == "memory" || is_served() {
            return Self::on(builder.memory().unwrap(), clock);
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        let db = match store.as_str() {
            "file" => builder.open(file).unwrap(),
            "exclusive" => builder.exclusive().open(file).unwrap(),
            unknown => {
                panic!("AEDB_STORE is {unknown}; there are memory, file, exclusive, and postgres with its feature")
            }
        };
        let mut shop = Self::on(db, clock);
        shop.folder = Some(folder);
        shop
    }

    /// The same on a database that is already open.
    pub fn on(db: Db, clock: ManualClock) -> Self {
        let queue = db.queue("q").unwrap();
        Self {
            clock,
            db,
            queue,
            folder: None,
            #[cfg(feature = "postgres")]
            schema: None,
        }
    }

    /// The same on a schema of its own on a server.
    #[cfg(feature = "postgres")]
    pub fn served(builder: aedb_queue::DbBuilder) -> Self {
        let clock = ManualClock::default();
        let schema = server::Schema::open(builder.clock(clock.clone()));
        let mut shop = Self::on(schema.store.db(), clock);
        shop.schema = Some(schema);
        shop
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
