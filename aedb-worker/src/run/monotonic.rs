//! The monotonic clock of this machine, by which a worker keeps its own promises (contract rule 18).

use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(now);

/// The present instant.
#[expect(clippy::disallowed_methods, reason = "leases are kept by a clock that nobody can set; this is its seam")]
pub(crate) fn now() -> Instant {
    #[cfg(feature = "simulation")]
    if super::simulated::is_on() {
        return tokio::time::Instant::now().into_std();
    }
    Instant::now()
}

/// Microseconds since the first call, and at least 1.
pub(crate) fn micros() -> u64 {
    u64::try_from(now().saturating_duration_since(*START).as_micros()).unwrap_or(u64::MAX).max(1)
}
