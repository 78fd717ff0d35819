//! Keys whose next event could not be delivered: when to try again, or why not.

use aedb_queue::{Backoff, Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{Retry, TaskError};

/// The longest reason that is kept, in bytes.
const REASON: usize = 2_048;

/// What is known of a key that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stuck {
    /// The event that is next.
    pub(crate) event: u64,
    /// How often it failed.
    pub(crate) attempts: u32,
    /// When it may be tried again, in microseconds; `None` if only by hand.
    pub(crate) again: Option<u64>,
    /// When it failed last, in microseconds.
    pub(crate) at: u64,
    /// Why.
    pub(crate) error: String,
}

/// The budget of an event.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) max_attempts: u32,
    pub(crate) backoff: Backoff,
}

impl Stuck {
    /// One more failure of an event.
    pub(crate) fn after(before: Option<&Self>, event: u64, error: &TaskError, budget: &Budget, now: Timestamp) -> Self {
        let earlier = before.filter(|before| before.event == event).map_or(0, |before| before.attempts);
        let attempts = earlier.saturating_add(1);
        let again = match error.retry {
            _ if attempts >= budget.max_attempts => None,
            Retry::Never => None,
            Retry::After(wait) => Some(now.saturating_add(wait).as_micros()),
            Retry::ByPolicy => Some(budget.backoff.due(now, attempts, event).as_micros()),
        };
        let mut text: String = error.to_string().replace('\0', "\u{fffd}");
        if text.len() > REASON {
            text.truncate(text.floor_char_boundary(REASON));
            text.push('…');
        }
        Self { event, attempts, again, at: now.as_micros(), error: text }
    }

    /// Whether the key has to wait.
    pub(crate) fn waits(&self, now: Timestamp) -> bool {
        self.again.is_none_or(|again| again > now.as_micros())
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "the record of a key that failed cannot be read").caused_by(error)
        })
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>> {
        Ok(aedb_queue::Json::of(self)?.as_str().as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_event_is_tried_again_until_its_budget_is_spent() {
        let budget = Budget { max_attempts: 3, backoff: Backoff::fixed(Duration::from_secs(1)).jitter(0) };
        let now = Timestamp::from_micros(5);
        let error = TaskError::new("away");
        let first = Stuck::after(None, 7, &error, &budget, now);
        assert!(first.waits(now) && !first.waits(now.saturating_add(Duration::from_secs(1))));
        let second = Stuck::after(Some(&first), 7, &error, &budget, now);
        let third = Stuck::after(Some(&second), 7, &error, &budget, now);
        assert_eq!((second.attempts, third.attempts, third.again), (2, 3, None));
        assert_eq!(
            Stuck::after(Some(&second), 8, &error, &budget, now).attempts,
            1,
            "another event has its own budget"
        );
        assert_eq!(Stuck::after(None, 7, &TaskError::new("no").fatal(), &budget, now).again, None);
        assert_eq!(Stuck::read(&third.write().unwrap()).unwrap(), third);
        let long = Stuck::after(None, 7, &TaskError::new("é".repeat(4_000)), &budget, now);
        assert!(long.error.len() <= REASON + 3 && long.error.ends_with('…'));
    }
}
