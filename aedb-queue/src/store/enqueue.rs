//! Enqueue: what a new task says, and what the store answers.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::backoff::Backoff;
use crate::model::json::Json;
use crate::model::limits;
use crate::model::task::{Policy, TaskId, UniqueKey};
use crate::time::Timestamp;

/// How long an idempotency key outlives its task unless said otherwise.
pub(crate) const UNIQUE_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// When a task is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Due {
    /// At once.
    #[default]
    Now,
    /// This long after the commit.
    After(Duration),
    /// At an instant; a past one means at once.
    At(Timestamp),
}

impl Due {
    pub(crate) fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::After(delay) => now.saturating_add(delay),
            Self::At(at) => at,
        }
    }
}

/// A task to enqueue: a name, a payload, and how it is to be treated.
///
/// ```
/// use std::time::Duration;
/// use aedb_queue::NewTask;
///
/// let task = NewTask::new("mail.welcome", &("ada@example.org", 7))?
///     .delay(Duration::from_secs(60))
///     .priority(10)
///     .idempotency_key("welcome:7");
/// # Ok::<(), aedb_queue::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewTask {
    pub(crate) name: Arc<str>,
    pub(crate) payload: Json,
    pub(crate) due: Due,
    pub(crate) priority: u64,
    pub(crate) policy: Policy,
    pub(crate) key: Option<UniqueKey>,
    pub(crate) metadata: Vec<(Arc<str>, Arc<str>)>,
}

impl NewTask {
    /// A task for the handler of this name, with a payload that is written as JSON.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the payload cannot be written as JSON. Names and sizes are checked when it is enqueued.
    pub fn new<T: Serialize + ?Sized>(name: impl Into<Arc<str>>, payload: &T) -> Result<Self> {
        Json::of(payload).map(|payload| Self::with_json(name, payload))
    }

    /// A task whose payload is JSON already.
    pub fn with_json(name: impl Into<Arc<str>>, payload: Json) -> Self {
        Self {
            name: name.into(),
            payload,
            due: Due::Now,
            priority: 0,
            policy: Policy::default(),
            key: None,
            metadata: Vec::new(),
        }
    }

    /// Makes it due this long after the commit.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Due::After(delay);
        self
    }

    /// Makes it due at an instant; a past one means at once.
    #[must_use]
    pub fn at(mut self, at: Timestamp) -> Self {
        self.due = Due::At(at);
        self
    }

    /// Serves it before all due tasks of lower priority. The default is 0, the lowest.
    ///
    /// The order is strict: a task waits for as long as there are due ones above it. [`QueueStats::oldest_ready`](crate::QueueStats)
    /// tells for how long the longest has waited, and [`Queue::amend`](crate::Queue::amend) raises one.
    #[must_use]
    pub fn priority(mut self, priority: u64) -> Self {
        self.priority = priority;
        self
    }

    /// How many failures it may have before it is dead; at least 1, by default 20.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = attempts;
        self
    }

    /// How many workers may be lost while running it before it is dead; at least 1, by default 10.
    #[must_use]
    pub fn max_lost_leases(mut self, leases: u32) -> Self {
        self.policy.max_lost_leases = leases;
        self
    }

    /// How long it waits after a failure; by default doubling from 1 s to 1 h, with 20 % jitter.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.policy.backoff = backoff;
        self
    }

    /// How long its record is kept once it is done or cancelled; by default 24 h, and zero removes it at once.
    #[must_use]
    pub fn keep_done(mut self, keep: Duration) -> Self {
        self.policy.keep_done = keep;
        self
    }

    /// How long its record is kept once it is dead; by default 30 days.
    #[must_use]
    pub fn keep_dead(mut self, keep: Duration) -> Self {
        self.policy.keep_dead = keep;
        self
    }

    /// Enqueues it only if the queue has no task of this key, unfinished or finished within 24 h.
    #[must_use]
    pub fn idempotency_key(self, key: impl Into<Arc<str>>) -> Self {
        self.idempotency_key_for(key, UNIQUE_WINDOW)
    }

    /// The same, with the time that the key outlives the task.
    #[must_use]
    pub fn idempotency_key_for(mut self, key: impl Into<Arc<str>>, window: Duration) -> Self {
        self.key = Some(UniqueKey { text: key.into(), window });
        self
    }

    /// Adds a name and value that travel with the task, for trace context and tags.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// The value of a metadata name, if it has one.
    pub fn metadata_value(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(has, _)| &**has == name).map(|(_, value)| &**value)
    }

    /// The handler's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The payload.
    pub fn payload(&self) -> &Json {
        &self.payload
    }

    pub(crate) fn check(&self) -> Result<()> {
        limits::name("task name", &self.name)?;
        limits::at_most("payload bytes", limits::PAYLOAD_BYTES, self.payload.as_str().len())?;
        limits::budget("max_attempts", self.policy.max_attempts)?;
        limits::budget("max_lost_leases", self.policy.max_lost_leases)?;
        if let Some(key) = &self.key {
            limits::idempotency_key(&key.text)?;
        }
        for (name, value) in &self.metadata {
            limits::name("metadata name", name)?;
            if value.contains('\0') {
                return Err(Error::invalid(format!("the metadata value of {name} contains NUL")));
            }
        }
        let bytes = self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        limits::at_most("metadata bytes", limits::METADATA_BYTES, bytes)
    }
}

/// What became of one task of an enqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnqueueOutcome {
    /// The new task's id, or that of the task which has the key already.
    pub id: TaskId,
    /// True if a task with the key existed, and nothing was enqueued.
    pub deduplicated: bool,
    /// True if that task has another name or payload: probably a mistake in the key.
    pub differs: bool,
}
