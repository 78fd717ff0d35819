//! Claim: take due tasks under a lease.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::model::json::Json;
use crate::model::limits;
use crate::model::task::{Counters, FencingToken, Policy, TaskId};
use crate::model::transition::{Retry, spends};
use crate::time::Timestamp;

/// The length of a lease: 1 second to 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease(Duration);

impl Lease {
    /// A lease of this length; out of range is an error of the call that uses it.
    pub const fn of(length: Duration) -> Self {
        Self(length)
    }

    /// A lease of so many seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// The length.
    pub const fn length(self) -> Duration {
        self.0
    }

    pub(crate) fn check(self) -> Result<()> {
        limits::lease(self.0)
    }
}

/// What to claim.
///
/// ```
/// use std::time::Duration;
/// use aedb_queue::{ClaimRequest, LeaseLength};
///
/// let request = ClaimRequest::new("worker-1", LeaseLength::secs(30))
///     .max(100)
///     .names(["mail.welcome"])
///     .wait(Duration::from_secs(20));
/// ```
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub(crate) owner: Arc<str>,
    pub(crate) lease: Lease,
    pub(crate) max: usize,
    pub(crate) names: Option<BTreeSet<Arc<str>>>,
    pub(crate) wait: Duration,
}

impl ClaimRequest {
    /// One task of any name, without waiting, for an owner and under a lease of this length.
    pub fn new(owner: impl Into<Arc<str>>, lease: Lease) -> Self {
        Self { owner: owner.into(), lease, max: 1, names: None, wait: Duration::ZERO }
    }

    /// Up to so many tasks; 1 to 10,000.
    #[must_use]
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// Only tasks of these names; the others are passed over untouched, at the cost of one look for each name.
    #[must_use]
    pub fn names<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Waits up to this long for a task to become ready. In the same process it is claimed in the very commit that makes it so.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        limits::name("owner", &self.owner)?;
        self.lease.check()?;
        limits::at_most("tasks in a claim", limits::CLAIM, self.max)?;
        self.names.iter().flatten().try_for_each(|name| limits::name("task name", name).map(|_| ()))
    }
}

/// A task under a lease, with the token that every later write must show.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClaimedTask {
    /// The task.
    pub id: TaskId,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its handler's name.
    pub name: Arc<str>,
    /// Its payload.
    pub payload: Json,
    /// The last progress that an attempt recorded.
    pub progress: Option<Json>,
    /// What has happened to it so far; this attempt is counted.
    pub counters: Counters,
    /// The token of this lease.
    pub token: FencingToken,
    /// When the lease runs out.
    pub deadline: Timestamp,
    /// Its priority.
    pub priority: u64,
    /// When it was enqueued.
    pub enqueued: Timestamp,
    /// What travels with it.
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// How many failures it may have; [`Counters::failures`] counts towards it.
    pub max_attempts: u32,
    /// How many workers may be lost while running it; [`Counters::lost_leases`] counts towards it.
    pub max_lost_leases: u32,
}

impl ClaimedTask {
    /// Whether failing this attempt so makes the task dead: by the word of the failure, or as the last that it may have.
    ///
    /// The failures and their limit are those of the claim. While the lease is held, only this attempt's own outcome changes
    /// the failures, and only [`Queue::amend`](crate::Queue::amend) the limit. So unless the task was amended meanwhile, it tells after
    /// [`FencedCommit::Applied`](crate::FencedCommit::Applied) what was applied. If it was, the store went by the new limit: a lower one makes a
    /// death that was not foretold here and that no sweep tells either, a higher one spares a task that was given up here;
    /// [`Queue::get`](crate::Queue::get) has the truth.
    pub fn would_die(&self, retry: &Retry) -> bool {
        *retry == Retry::Fatal || spends(self.counters.failures.saturating_add(1), self.max_attempts)
    }

    /// A task that is in no database, for unit tests of handlers: its first attempt, under a lease that does not run out.
    ///
    /// Its token is 0, which no claim hands out, so no store ever takes a write from it. Set the other fields as the test
    /// needs them.
    ///
    /// ```
    /// use aedb_queue::{ClaimedTask, Json};
    ///
    /// let mut task = ClaimedTask::detached("mail", "mail.welcome", Json::of("ada@example.org")?);
    /// task.progress = Some(Json::of(&3)?);
    /// assert_eq!(task.counters.attempts, 1);
    /// # Ok::<(), aedb_queue::Error>(())
    /// ```
    pub fn detached(queue: impl Into<Arc<str>>, name: impl Into<Arc<str>>, payload: Json) -> Self {
        let policy = Policy::default();
        Self {
            id: TaskId::from_u64(1),
            queue: queue.into(),
            name: name.into(),
            payload,
            progress: None,
            counters: Counters { attempts: 1, deliveries: 1, ..Counters::default() },
            token: FencingToken::default(),
            deadline: Timestamp::MAX,
            priority: 0,
            enqueued: Timestamp::default(),
            metadata: Vec::new(),
            max_attempts: policy.max_attempts,
            max_lost_leases: policy.max_lost_leases,
        }
    }
}
