//! Amend: what may be changed about a task that has not finished.

use crate::error::Result;
use crate::model::backoff::Backoff;
use crate::model::limits;
use crate::model::transition::Terms;

/// New terms for a task that has not finished. What it does not name stays as it is.
///
/// ```
/// use aedb_queue::Amendment;
///
/// let urgent = Amendment::new().priority(9).max_attempts(3);
/// # let _ = urgent;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Amendment {
    pub(crate) terms: Terms,
}

impl Amendment {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves it before all due tasks of lower priority; among equals it keeps the place that its enqueue gave it.
    #[must_use]
    pub fn priority(mut self, priority: u64) -> Self {
        self.terms.priority = Some(priority);
        self
    }

    /// How many failures it may have before it is dead, those that it has already counted; at least 1.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.terms.max_attempts = Some(attempts);
        self
    }

    /// How long it waits after its next failures. One that waits already is due when it was.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.terms.backoff = Some(backoff);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.terms.max_attempts.map_or(Ok(()), |attempts| limits::budget("max_attempts", attempts))
    }
}
