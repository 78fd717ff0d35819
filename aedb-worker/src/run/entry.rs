//! The attempts that a worker holds leases for, by task and token: a task may come back while an old attempt still ends.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use aedb_queue::{ClaimedTask, FencingToken, Json, TaskId};
use futures_util::future::AbortHandle;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::monotonic;
use super::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::events;

/// One attempt, from its claim until the queue has its outcome.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) task: Arc<ClaimedTask>,
    /// Which of the worker's queues it came from.
    pub(crate) line: usize,
    pub(crate) lease: Duration,
    pub(crate) begun: Instant,
    /// The handler should stop.
    pub(crate) asked: CancellationToken,
    decided: AtomicBool,
    lost: AtomicBool,
    times: Mutex<Times>,
    /// The microsecond at which the running poll of the handler began; 0 between polls.
    polling: AtomicU64,
    warned: AtomicBool,
    checkpoint_every: Duration,
    waiting: Mutex<Checkpoint>,
    abort: OnceLock<AbortHandle>,
}

/// When an attempt must end, on this machine's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Nobody can take the lease over before this: counted from before the call that extended it was sent.
    pub(crate) safe: Instant,
    /// The handler's time is over.
    pub(crate) limit: Option<Instant>,
    /// When to stop waiting for a handler that was asked to stop.
    pub(crate) patience: Option<Instant>,
}

/// A checkpoint that waits until it may be written.
#[derive(Debug, Default)]
struct Checkpoint {
    progress: Option<Json>,
    written: Option<Instant>,
}

impl Entry {
    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn key(&self) -> (TaskId, FencingToken) {
        (self.task.id, self.task.token)
    }

    pub(crate) fn times(&self) -> Times {
        *Self::lock(&self.times)
    }

    /// How long before the end of its lease an attempt must be over; it is asked to end twice as long before.
    pub(crate) fn margin(&self) -> Duration {
        self.lease / 40
    }

    /// The lease was extended by a call sent at this instant.
    pub(crate) fn extended(&self, sent: Instant) {
        let mut times = Self::lock(&self.times);
        times.safe = times.safe.max(sent + self.lease);
    }

    /// The handler starts now and may run this long.
    pub(crate) fn started(&self, timeout: Option<Duration>) {
        Self::lock(&self.times).limit = timeout.and_then(|timeout| monotonic::now().checked_add(timeout));
    }

    pub(crate) fn spawned(&self, abort: AbortHandle) {
        let _ = self.abort.set(abort);
    }

    /// Asks the handler to stop, and says how long to wait for it.
    pub(crate) fn ask(&self, patience: Duration) {
        self.asked.cancel();
        let (mut times, until) = (Self::lock(&self.times), monotonic::now() + patience);
        times.patience = Some(times.patience.map_or(until, |earlier| earlier.min(until)));
    }

    /// Drops the attempt. A handler that blocks its thread cannot be dropped; whatever it does later is refused.
    pub(crate) fn abort(&self) {
        self.asked.cancel();
        if let Some(abort) = self.abort.get() {
            abort.abort();
        }
    }

    /// True for the first who asks: the attempt has one outcome.
    pub(crate) fn decide(&self) -> bool {
        !self.decided.swap(true, Ordering::AcqRel)
    }

    /// The lease is lost: there will be no outcome. False if there was one already.
    pub(crate) fn lose(&self) -> bool {
        let first = self.decide();
        if first {
            self.lost.store(true, Ordering::Release);
        }
        first
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.decided.load(Ordering::Acquire)
    }

    /// Takes a checkpoint that comes too soon to be written now.
    pub(crate) fn throttles(&self, progress: &Json) -> bool {
        if self.checkpoint_every.is_zero() {
            return false;
        }
        let (mut waiting, now) = (Self::lock(&self.waiting), monotonic::now());
        let early = waiting.written.is_some_and(|written| now < written + self.checkpoint_every);
        if early {
            waiting.progress = Some(progress.clone());
        } else {
            *waiting = Checkpoint { progress: None, written: Some(now) };
        }
        early
    }

    /// A checkpoint that waits: whichever there is, or only one whose time has come.
    pub(crate) fn take_checkpoint(&self, due_only: bool) -> Option<Json> {
        let (mut waiting, now) = (Self::lock(&self.waiting), monotonic::now());
        if due_only && waiting.written.is_some_and(|written| now < written + self.checkpoint_every) {
            return None;
        }
        let progress = waiting.progress.take()?;
        waiting.written = Some(now);
        Some(progress)
    }

    /// Puts a checkpoint back that could not be written, unless there is a later one.
    pub(crate) fn return_checkpoint(&self, progress: Json) {
        Self::lock(&self.waiting).progress.get_or_insert(progress);
    }

    pub(crate) fn poll_begins(&self) {
        self.polling.store(monotonic::micros(), Ordering::Relaxed);
    }

    pub(crate) fn poll_ends(&self) {
        self.polling.store(0, Ordering::Relaxed);
    }

    /// How long the handler has been blocking its thread, the first time it is over a bound.
    pub(crate) fn blocks_longer_than(&self, bound: Duration) -> Option<Duration> {
        let began = self.polling.load(Ordering::Relaxed);
        let blocked = Duration::from_micros(monotonic::micros().saturating_sub(began));
        (began != 0 && blocked > bound && !self.warned.swap(true, Ordering::Relaxed)).then_some(blocked)
    }
}

/// What an attempt takes from the worker's bounds. It is free again when the queue has the outcome and the attempt's future is
/// gone, whichever is later; a context that outlives its handler holds nothing.
#[derive(Debug)]
pub(crate) struct Room {
    _slot: OwnedSemaphorePermit,
    turn: OnceLock<OwnedSemaphorePermit>,
}

impl Room {
    /// The handler may run.
    pub(crate) fn enter(&self, turn: OwnedSemaphorePermit) {
        let _ = self.turn.set(turn);
    }
}

/// What is needed to begin an entry.
pub(crate) struct Begin {
    pub(crate) task: ClaimedTask,
    pub(crate) line: usize,
    pub(crate) lease: Duration,
    /// Nobody can take the lease over before this.
    pub(crate) safe: Instant,
    pub(crate) checkpoint_every: Duration,
    pub(crate) slot: OwnedSemaphorePermit,
}

type Entries = BTreeMap<(TaskId, FencingToken), (Arc<Entry>, Arc<Room>)>;

/// All entries of a worker.
#[derive(Debug, Default)]
pub(crate) struct Running {
    entries: Mutex<Entries>,
    /// Rung when an entry begins or ends.
    pub(crate) changed: Notify,
}

impl Running {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, begin: Begin) -> (Arc<Entry>, Arc<Room>) {
        let entry = Arc::new(Entry {
            task: Arc::new(begin.task),
            line: begin.line,
            lease: begin.lease,
            begun: monotonic::now(),
            asked: CancellationToken::new(),
            decided: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            times: Mutex::new(Times { safe: begin.safe, limit: None, patience: None }),
            polling: AtomicU64::new(0),
            warned: AtomicBool::new(false),
            checkpoint_every: begin.checkpoint_every,
            waiting: Mutex::default(),
            abort: OnceLock::new(),
        });
        let room = Arc::new(Room { _slot: begin.slot, turn: OnceLock::new() });
        self.entries().insert(entry.key(), (Arc::clone(&entry), Arc::clone(&room)));
        self.changed.notify_waiters();
        (entry, room)
    }

    /// Forgets an entry: the queue has its outcome, or its lease is lost.
    pub(crate) fn end(&self, entry: &Entry) {
        self.entries().remove(&entry.key());
        events::in_flight(self.count());
        self.changed.notify_waiters();
    }

    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries().values().map(|(entry, _)| Arc::clone(entry)).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.entries().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Ends when no entry is left.
    pub(crate) async fn emptied(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_empty() {
                return;
            }
            changed.await;
        }
    }
}
