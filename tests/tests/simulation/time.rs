//! The database's clock: the runtime's paused time, and whatever somebody set it forward or back by.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedb_queue::{Clock, ClockListener, Timestamp};
use tokio::time::Instant;

/// The first instant: 2026.
const FIRST: i64 = 1_767_225_600_000_000;

/// A wall clock that can be set. Cheap to clone; all clones are one clock.
#[derive(Clone)]
pub(crate) struct WallClock(Arc<State>);

struct State {
    start: Instant,
    set_by: AtomicI64,
    listeners: Mutex<Vec<ClockListener>>,
}

impl WallClock {
    /// A clock that goes right, on the runtime's time.
    pub(crate) fn new() -> Self {
        Self(Arc::new(State { start: Instant::now(), set_by: AtomicI64::new(0), listeners: Mutex::default() }))
    }

    /// How much time has really passed.
    pub(crate) fn passed(&self) -> Duration {
        self.0.start.elapsed()
    }

    /// Sets the clock forward or back.
    pub(crate) fn set_by(&self, micros: i64) {
        self.0.set_by.fetch_add(micros, Ordering::SeqCst);
        self.ring();
    }

    /// Lets those look again who wait for an instant.
    pub(crate) fn ring(&self) {
        let listeners = self.0.listeners.lock().unwrap().clone();
        listeners.iter().for_each(|listener| listener());
    }

    /// Forgets who listened: the database is closed.
    pub(crate) fn hang_up(&self) {
        self.0.listeners.lock().unwrap().clear();
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WallClock").field(&self.now()).finish()
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.passed().as_micros()).unwrap();
        Timestamp::from_micros(u64::try_from(FIRST + passed + self.0.set_by.load(Ordering::SeqCst)).unwrap())
    }

    fn sleep_for(&self, _wait: Duration) -> Option<Duration> {
        None
    }

    fn on_move(&self, listener: ClockListener) {
        self.0.listeners.lock().unwrap().push(listener);
    }
}
