//! Defaults: how the tasks of a handler are enqueued and run unless a call says otherwise.

use std::borrow::Cow;
use std::time::Duration;

use aedb_queue::{Backoff, NewTask};

use crate::version;

/// How the tasks of a handler are enqueued and run. What is not set is the queue's or the worker's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Defaults {
    pub(crate) timeout: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    max_attempts: Option<u32>,
    backoff: Option<Backoff>,
    priority: Option<u64>,
    keep: Option<Duration>,
    pub(crate) version: Option<u32>,
    pub(crate) queue: Option<Cow<'static, str>>,
}

impl Defaults {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The longest that one attempt may run; then it is stopped, and that is a failure. By default there is no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The length of this handler's leases, 1 s to 24 h, from the first heartbeat on; by default the worker's.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How many failures a task may have before it is dead.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long a task waits after a failure.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// A task's priority.
    pub fn priority(mut self, priority: u64) -> Self {
        self.priority = Some(priority);
        self
    }

    /// How long a task's record is kept once it is done.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// The queue that a task is enqueued to; by default `default`.
    pub fn queue(mut self, queue: impl Into<Cow<'static, str>>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The number of today's form of the input, which travels with each task.
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    pub(crate) fn queue_name(&self) -> &str {
        self.queue.as_deref().unwrap_or("default")
    }

    pub(crate) fn apply(self, mut task: NewTask) -> NewTask {
        if let Some(attempts) = self.max_attempts {
            task = task.max_attempts(attempts);
        }
        if let Some(backoff) = self.backoff {
            task = task.backoff(backoff);
        }
        if let Some(priority) = self.priority {
            task = task.priority(priority);
        }
        if let Some(keep) = self.keep {
            task = task.keep_done(keep);
        }
        if let Some(version) = self.version {
            task = task.metadata(version::NAME, version.to_string());
        }
        task
    }
}
