//! A task's record: what is stored, with its state as an enum that holds the state's own data.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::model::backoff::Backoff;
use crate::model::json::Json;
use crate::time::Timestamp;

/// A task's id: unique in its scope, and growing with the time of enqueue.
///
/// It is the microsecond of the enqueue, or one more than the id before, so it never repeats, not even in a database that
/// was restored from a backup and lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    /// The id with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id's number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TaskId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().map(Self).map_err(|e| Error::invalid("a task id is a whole number").caused_by(e))
    }
}

/// A number that grows each time a lease changes hands; every later write shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this number.
    pub const fn from_u64(token: u64) -> Self {
        Self(token)
    }

    /// The token's number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The token of the next holder: one more, and above the floor that a restored database sets.
    pub(crate) fn next(self, floor: Self) -> Self {
        Self(self.0.saturating_add(1).max(floor.0))
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a task is, with what only that state knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// Waits for an instant.
    Scheduled {
        /// When it becomes ready.
        due: Timestamp,
    },
    /// May be claimed now.
    Ready {
        /// Since when.
        since: Timestamp,
    },
    /// Claimed, under a lease.
    InFlight {
        /// Who holds the lease.
        owner: Arc<str>,
        /// When the lease runs out.
        deadline: Timestamp,
        /// When it was claimed.
        claimed: Timestamp,
    },
    /// Completed.
    Done {
        /// When.
        at: Timestamp,
    },
    /// Given up; can be inspected and retried.
    Dead {
        /// When.
        at: Timestamp,
        /// Why.
        reason: DeadReason,
    },
    /// Cancelled.
    Cancelled {
        /// When.
        at: Timestamp,
    },
}

impl TaskState {
    /// When the task finished, if it has.
    pub fn finished(&self) -> Option<Timestamp> {
        match self {
            Self::Done { at } | Self::Dead { at, .. } | Self::Cancelled { at } => Some(*at),
            Self::Scheduled { .. } | Self::Ready { .. } | Self::InFlight { .. } => None,
        }
    }

    /// The state without its data.
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Scheduled { .. } => StateKind::Scheduled,
            Self::Ready { .. } => StateKind::Ready,
            Self::InFlight { .. } => StateKind::InFlight,
            Self::Done { .. } => StateKind::Done,
            Self::Dead { .. } => StateKind::Dead,
            Self::Cancelled { .. } => StateKind::Cancelled,
        }
    }
}

/// A state's name, for filters and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateKind {
    /// Waits for an instant.
    Scheduled,
    /// May be claimed now.
    Ready,
    /// Claimed, under a lease.
    InFlight,
    /// Completed.
    Done,
    /// Given up.
    Dead,
    /// Cancelled.
    Cancelled,
}

impl StateKind {
    /// All of them, in the order of a task's life.
    pub const ALL: [Self; 6] = [Self::Scheduled, Self::Ready, Self::InFlight, Self::Done, Self::Dead, Self::Cancelled];
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::InFlight => "in flight",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        })
    }
}

/// Why a task was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// It failed as often as it may.
    AttemptsSpent,
    /// A failure said that trying again cannot help.
    Fatal,
    /// Its worker was lost as often as allowed while running it.
    LeasesLost,
    /// Its stored record was damaged and has been set aside.
    Damaged,
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AttemptsSpent => "it failed as often as it may",
            Self::Fatal => "a failure said that trying again cannot help",
            Self::LeasesLost => "its worker was lost as often as allowed",
            Self::Damaged => "its stored record was damaged and has been set aside",
        })
    }
}

/// What has happened to a task so far. Only `failures` spends the budget of attempts (contract rules 6 and 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Executions that counted: not the ones that were snoozed, released or lost.
    pub attempts: u32,
    /// Attempts that failed since the task was enqueued, last continued or last retried by hand.
    pub failures: u32,
    /// Times the task was handed to a worker.
    pub deliveries: u32,
    /// Leases that ran out since the task was enqueued, last continued or last retried by hand.
    pub lost_leases: u32,
    /// Times an attempt asked to be run later.
    pub snoozes: u32,
}

/// One failure that the record remembers, or why an attempt discarded the task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// When it was reported.
    pub at: Timestamp,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// What the worker said, cut at 8 KiB.
    pub error: Arc<str>,
}

/// The rules a task is retried and kept by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) max_attempts: u32,
    pub(crate) max_lost_leases: u32,
    pub(crate) backoff: Backoff,
    pub(crate) keep_done: Duration,
    pub(crate) keep_dead: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        const DAY: u64 = 24 * 3600;
        Self {
            max_attempts: 20,
            max_lost_leases: 10,
            backoff: Backoff::default(),
            keep_done: Duration::from_secs(DAY),
            keep_dead: Duration::from_secs(30 * DAY),
        }
    }
}

/// An idempotency key and how long it outlives its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UniqueKey {
    pub(crate) text: Arc<str>,
    pub(crate) window: Duration,
}

/// A value of a record: in the record itself, or beside it when it is long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Body {
    #[default]
    None,
    Inline(Json),
    Beside {
        bytes: u32,
    },
}

/// The durable record of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) name: Arc<str>,
    pub(crate) priority: u64,
    pub(crate) enqueued: Timestamp,
    pub(crate) updated: Timestamp,
    pub(crate) policy: Policy,
    pub(crate) key: Option<UniqueKey>,
    pub(crate) metadata: Vec<(Arc<str>, Arc<str>)>,
    pub(crate) counters: Counters,
    pub(crate) token: FencingToken,
    pub(crate) state: TaskState,
    pub(crate) payload: Body,
    pub(crate) progress: Body,
    pub(crate) result: Body,
    pub(crate) failures: Vec<Failure>,
}

impl Task {
    /// When the finished record may be removed.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        match self.state {
            TaskState::Done { at } | TaskState::Cancelled { at } => Some(at.saturating_add(self.policy.keep_done)),
            TaskState::Dead { at, .. } => Some(at.saturating_add(self.policy.keep_dead)),
            _ => None,
        }
    }

    /// Why its worker discarded it, if that is how it was cancelled: a cancel by hand adds no text to the record.
    pub(crate) fn discarded(&self) -> Option<&Failure> {
        let TaskState::Cancelled { at } = self.state else { return None };
        self.failures.last().filter(|last| last.at == at && last.attempt == self.counters.attempts)
    }
}
