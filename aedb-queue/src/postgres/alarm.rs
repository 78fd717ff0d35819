//! When a waiting call gives up, and what wakes it before.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::PgStore;
use super::clock::monotonic;
use crate::time::Timestamp;

/// When a waiting call gives up.
pub(super) struct Alarm {
    store: PgStore,
    real: Option<Instant>,
    moved: Timestamp,
}

impl PgStore {
    pub(super) fn alarm(&self, wait: Duration) -> Alarm {
        if !wait.is_zero() {
            self.listen();
        }
        // On a clock that tests move the real one says nothing.
        let real = if self.0.clock.is_some() { None } else { monotonic().checked_add(wait) };
        Alarm { store: self.clone(), real, moved: self.now().saturating_add(wait) }
    }
}

impl Alarm {
    pub(super) fn is_over(&self) -> bool {
        self.real.map_or_else(|| self.store.now() >= self.moved, |ends| monotonic() >= ends)
    }

    /// Waits for a hint, for the alarm, and at most so long.
    pub(super) async fn wait(&self, mut hint: watch::Receiver<()>, at_most: Duration) {
        let left = self.real.map_or(at_most, |ends| ends.saturating_duration_since(monotonic()).min(at_most));
        let _ = tokio::time::timeout(left, hint.changed()).await;
    }
}
