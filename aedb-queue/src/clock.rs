//! The one place where time comes from.
//!
//! Everything below the handles takes the instant as an argument; only the engine asks a [`Clock`]. A [`ManualClock`]
//! makes delays, leases and retries testable without sleeping.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::time::{Timestamp, micros};

/// Called when a manual clock moves, so that whoever waits for an instant looks again.
pub type ClockListener = Arc<dyn Fn() + Send + Sync>;

/// Where the database's time comes from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// How long a thread should really sleep to let `wait` pass on this clock; `None` if only a listener can tell.
    fn sleep_for(&self, wait: Duration) -> Option<Duration>;

    /// Registers a function to call whenever this clock is moved by hand.
    fn on_move(&self, listener: ClockListener);
}

/// The operating system's wall clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the seam that the lint protects")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Timestamp::from_micros(since.map_or(0, micros))
    }

    fn sleep_for(&self, wait: Duration) -> Option<Duration> {
        Some(wait)
    }

    fn on_move(&self, _listener: ClockListener) {}
}

/// A clock that moves only when told to, for tests.
///
/// ```
/// use std::time::Duration;
/// use aedb_queue::{Clock, ManualClock};
///
/// let clock = ManualClock::default();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now().saturating_since(before), Duration::from_secs(60));
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<Manual>>);

struct Manual {
    now: Timestamp,
    listeners: Vec<ClockListener>,
}

impl ManualClock {
    /// A clock that stands at an instant.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Manual { now, listeners: Vec::new() })))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().saturating_add(by));
    }

    /// Moves the clock to an instant, which may lie in the past.
    pub fn set(&self, now: Timestamp) {
        let listeners = {
            let mut manual = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            manual.now = now;
            manual.listeners.clone()
        };
        for listener in listeners {
            listener();
        }
    }
}

/// A clock that stands at the first second of the year 2026.
impl Default for ManualClock {
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_767_225_600_000_000))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now
    }

    fn sleep_for(&self, _wait: Duration) -> Option<Duration> {
        None
    }

    fn on_move(&self, listener: ClockListener) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).listeners.push(listener);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_moved_clock_calls_its_listeners() {
        let (clock, calls) = (ManualClock::default(), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&calls);
        clock.on_move(Arc::new(move || {
            seen.fetch_add(1, Ordering::Relaxed);
        }));
        clock.advance(Duration::from_secs(1));
        clock.set(Timestamp::default());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
