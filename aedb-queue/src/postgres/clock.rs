//! The database's clock, as seen from here: this machine's and what it is off by.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{Clock, ClockListener, SystemClock};
use crate::time::Timestamp;

/// An estimate, for looking at. Whatever a commit decides, it decides by the server's own clock.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    ahead: AtomicI64,
}

impl ServerClock {
    /// Sets it by an answer of the server that was under way from `before` until now.
    pub(super) fn set(&self, before: Timestamp, server: Timestamp) {
        let middle = before.as_micros().midpoint(SystemClock.now().as_micros());
        self.ahead.store(server.as_micros().wrapping_sub(middle).cast_signed(), Ordering::Relaxed);
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::Relaxed);
        Timestamp::from_micros(SystemClock.now().as_micros().saturating_add_signed(ahead))
    }

    fn sleep_for(&self, wait: Duration) -> Option<Duration> {
        Some(wait)
    }

    fn on_move(&self, _listener: ClockListener) {}
}

/// The runtime's own time, for waits: it does not jump, and tests may pause it.
pub(super) fn monotonic() -> Instant {
    Instant::now()
}
