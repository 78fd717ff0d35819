//! Looking at tasks: records, pages, counts, and why one is not running.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::json::Json;
use crate::model::task::{Counters, DeadReason, Failure, FencingToken, StateKind, TaskId, TaskState};
use crate::time::Timestamp;

/// Everything that is recorded about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The task.
    pub id: TaskId,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its handler's name.
    pub name: Arc<str>,
    /// Where it is.
    pub state: TaskState,
    /// Its priority.
    pub priority: u64,
    /// Its payload.
    pub payload: Json,
    /// The last progress that an attempt recorded.
    pub progress: Option<Json>,
    /// The result of its completion.
    pub result: Option<Json>,
    /// The last ten failures, oldest first; the reason of a discard is the last of them.
    pub failures: Vec<Failure>,
    /// What has happened to it so far.
    pub counters: Counters,
    /// How many failures it may have.
    pub max_attempts: u32,
    /// The token of its last lease.
    pub token: FencingToken,
    /// When it was enqueued.
    pub enqueued: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// Its idempotency key.
    pub idempotency_key: Option<Arc<str>>,
    /// What travels with it.
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
}

/// A place in a list. It stays good while tasks move, and can be kept as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub(crate) Vec<u8>);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid("not a cursor of this list");
        if !text.is_ascii() || !text.len().is_multiple_of(2) || text.len() > 1024 {
            return Err(bad());
        }
        let byte = |at: usize| text.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).ok_or_else(bad);
        (0..text.len()).step_by(2).map(byte).collect::<Result<_>>().map(Self)
    }
}

/// Which tasks to list.
///
/// Without a state, tasks come in the order of enqueue. With one they come in the order in which they will move on: by due
/// instant, by claim order within a name, by deadline, or by the instant at which the record is removed.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub(crate) state: Option<StateKind>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) enqueued_from: Option<Timestamp>,
    pub(crate) enqueued_until: Option<Timestamp>,
    pub(crate) after: Option<Cursor>,
    pub(crate) limit: Option<usize>,
}

impl Filter {
    /// All tasks.
    pub fn all() -> Self {
        Self::default()
    }

    /// Tasks in one state.
    pub fn state(state: StateKind) -> Self {
        Self { state: Some(state), ..Self::default() }
    }

    /// Dead tasks.
    pub fn dead() -> Self {
        Self::state(StateKind::Dead)
    }

    /// Only tasks of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only tasks enqueued at or after an instant.
    #[must_use]
    pub fn enqueued_from(mut self, from: Timestamp) -> Self {
        self.enqueued_from = Some(from);
        self
    }

    /// Only tasks enqueued before an instant.
    #[must_use]
    pub fn enqueued_until(mut self, until: Timestamp) -> Self {
        self.enqueued_until = Some(until);
        self
    }

    /// Only tasks behind this place: [`Page::next`] of the page before.
    #[must_use]
    pub fn after(mut self, cursor: Option<Cursor>) -> Self {
        self.after = cursor;
        self
    }

    /// At most this many; at most and by default 1,000.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// A page of tasks.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Page {
    /// The tasks. A page can hold fewer than asked for, even none, and still have a next one.
    pub tasks: Vec<TaskRecord>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Cursor>,
}

/// A queue's counts and oldest ages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueStats {
    /// Tasks that wait for an instant.
    pub scheduled: u64,
    /// Tasks that may be claimed now.
    pub ready: u64,
    /// Tasks under a lease.
    pub in_flight: u64,
    /// Completed tasks whose record is kept.
    pub done: u64,
    /// Dead tasks.
    pub dead: u64,
    /// Cancelled tasks whose record is kept.
    pub cancelled: u64,
    /// Bytes of finished records.
    pub finished_bytes: u64,
    /// Since when the queue is paused, if it is.
    pub paused: Option<Timestamp>,
    /// Since when the task that waits longest is ready. Exact for up to 1,000 different names and priorities.
    pub oldest_ready: Option<Timestamp>,
    /// When the lease that runs out first does so.
    pub next_deadline: Option<Timestamp>,
    /// When the next scheduled task is due.
    pub next_due: Option<Timestamp>,
}

/// Why a task is not running, as a value to match and a sentence to read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Explanation {
    /// There is no such task: never enqueued, deleted, or removed after its retention.
    Unknown,
    /// It waits for an instant.
    NotDue {
        /// When it is due.
        due: Timestamp,
        /// The last failure, if it waits because of one.
        after: Option<Failure>,
        /// As in [`Explanation::Waiting`].
        unserved: Option<Arc<str>>,
    },
    /// The queue is paused.
    Paused {
        /// Since when.
        since: Timestamp,
    },
    /// It is ready, behind others.
    Waiting {
        /// How many are served first; counted up to 10,000.
        ahead: u64,
        /// The task's name, if no live worker knows it in this queue. `None` too in a scope where no worker was ever
        /// [announced](crate::LiveWorker), whose tasks are claimed by hand.
        unserved: Option<Arc<str>>,
    },
    /// It is running, or its worker is gone and the lease has not run out yet.
    Leased {
        /// Who holds the lease.
        owner: Arc<str>,
        /// Until when.
        until: Timestamp,
    },
    /// It is done.
    Done {
        /// When.
        at: Timestamp,
    },
    /// It is dead.
    Dead {
        /// When.
        at: Timestamp,
        /// Why.
        reason: DeadReason,
        /// The last failure.
        last: Option<Failure>,
    },
    /// It was cancelled.
    Cancelled {
        /// When.
        at: Timestamp,
    },
    /// An attempt found that it is no longer wanted.
    Discarded {
        /// When.
        at: Timestamp,
        /// What the attempt said.
        reason: Arc<str>,
    },
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = |failure: &Option<Failure>| {
            failure.as_ref().map_or_else(String::new, |last| {
                format!(" Attempt {} failed: \"{}\".", last.attempt, last.error.escape_debug())
            })
        };
        let unserved = |name: &Option<Arc<str>>| {
            name.as_ref().map_or_else(String::new, |name| format!(" No live worker knows the name \"{name}\"."))
        };
        match self {
            Self::Unknown => {
                f.write_str("There is no such task: it was never enqueued, or its record has been removed.")
            }
            Self::NotDue { due, after, unserved: name } => {
                write!(f, "It is not due until {due}.{}{}", because(after), unserved(name))
            }
            Self::Paused { since } => write!(f, "Its queue has been paused since {since}; resume it."),
            Self::Waiting { ahead, unserved: name } => {
                match ahead {
                    0 => f.write_str("It is next; it waits for a worker that claims its name."),
                    1 => f.write_str("One task is served before it."),
                    10_000.. => f.write_str("At least 10000 tasks are served before it."),
                    _ => write!(f, "{ahead} tasks are served before it."),
                }?;
                f.write_str(&unserved(name))
            }
            Self::Leased { owner, until } => write!(f, "{owner} runs it, under a lease until {until}."),
            Self::Done { at } => write!(f, "It was done at {at}."),
            Self::Dead { at, reason, last } => {
                write!(f, "It is dead since {at}: {reason}.{} Retry it to run it again.", because(last))
            }
            Self::Cancelled { at } => write!(f, "It was cancelled at {at}."),
            Self::Discarded { at, reason } => {
                write!(f, "It was discarded at {at}: \"{}\".", reason.escape_debug())
            }
        }
    }
}
