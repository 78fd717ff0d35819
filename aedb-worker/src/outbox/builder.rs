//! How to build a dispatcher.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{Backoff, Db, Error, Result, Scope};

use super::dispatch::{self, Parts};
use super::keys::TopicKeys;
use super::publisher::Publisher;
use super::stuck::Budget;
use crate::builder::{default_owner, mistake_in_lease};
use crate::run::{Control, Mode, WorkerHandle};

/// Hands the events of a topic to a publisher.
pub struct Dispatcher {
    parts: Parts,
    keys: TopicKeys,
    control: Arc<Control>,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher")
            .field("topic", &self.keys.topic())
            .field("owner", &self.parts.owner)
            .finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// A dispatcher on the default scope of a database.
    pub fn builder(db: &Db) -> DispatcherBuilder {
        Self::builder_in(db.default_scope())
    }

    /// A dispatcher on a scope.
    pub fn builder_in(scope: Scope) -> DispatcherBuilder {
        DispatcherBuilder {
            scope,
            topic: None,
            publisher: None,
            owner: None,
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(50),
            timeout: Duration::from_secs(30),
            batch: 256,
            concurrency: 64,
            budget: Budget { max_attempts: 20, backoff: Backoff::default() },
            keep: Duration::ZERO,
        }
    }

    /// Steers the dispatcher while it runs.
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle::new(Arc::clone(&self.control))
    }

    /// Runs until [`WorkerHandle::shutdown`]. Answers how many events it delivered.
    ///
    /// # Errors
    ///
    /// As [`Dispatcher::run_until`].
    ///
    /// # Cancel safety
    ///
    /// As [`Dispatcher::run_until`].
    pub async fn run(self) -> Result<u64> {
        self.run_until(pending()).await
    }

    /// Runs until a future ends, then gives its lanes back. Answers how many events it delivered.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](aedb_queue::ErrorKind::PermissionDenied) without a grant. Calls that fail because the store cannot serve are tried again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was published and not recorded is published again by whoever goes on.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<u64> {
        dispatch::run(self.parts, self.keys, self.control, Mode::Forever, stop).await
    }

    /// Delivers everything that is due and returns. Keys that wait for another try, or are parked, or belong to lanes of another
    /// dispatcher, are left alone. Answers how many events it delivered.
    ///
    /// # Errors
    ///
    /// As [`Dispatcher::run_until`].
    ///
    /// # Cancel safety
    ///
    /// As [`Dispatcher::run_until`].
    pub async fn drain(self) -> Result<u64> {
        dispatch::run(self.parts, self.keys, self.control, Mode::Drain, pending()).await
    }
}

/// How to build a [`Dispatcher`]. Each knob has a default, but for the topic and the publisher.
#[must_use = "a builder does nothing until it is built"]
pub struct DispatcherBuilder {
    scope: Scope,
    topic: Option<String>,
    publisher: Option<Arc<dyn Publisher>>,
    owner: Option<String>,
    lease: Duration,
    poll: Duration,
    timeout: Duration,
    batch: usize,
    concurrency: usize,
    budget: Budget,
    keep: Duration,
}

impl fmt::Debug for DispatcherBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatcherBuilder").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl DispatcherBuilder {
    /// The topic to deliver.
    pub fn topic(mut self, topic: &str) -> Self {
        self.topic = Some(topic.to_owned());
        self
    }

    /// Where its events go.
    pub fn publisher(mut self, publisher: impl Publisher) -> Self {
        self.publisher = Some(Arc::new(publisher));
        self
    }

    /// Who the dispatcher is: unique among all that run. By default the host, the process and a number.
    pub fn owner(mut self, owner: &str) -> Self {
        self.owner = Some(owner.to_owned());
        self
    }

    /// How long its leases are, 1 s to 24 h; by default 30 s. It is how long the keys of one that died wait for another.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How often it looks for new events while there are none; by default every 50 ms.
    pub fn poll_interval(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// The longest that publishing one event may take; then it has failed. By default 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The most events that one lane reads at a time, 1 to 1,000; by default 256. There are 32 lanes.
    pub fn batch(mut self, events: usize) -> Self {
        self.batch = events;
        self
    }

    /// The most keys that are published at once; by default 64.
    pub fn concurrency(mut self, keys: usize) -> Self {
        self.concurrency = keys;
        self
    }

    /// How often an event may fail before its key is parked; by default 20.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.budget.max_attempts = attempts;
        self
    }

    /// How long a key waits after a failure; by default doubling from 1 s to 1 h.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.budget.backoff = backoff;
        self
    }

    /// How long it is remembered that an event was delivered; by default not at all.
    pub fn keep_delivered(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Checks everything at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid), naming every mistake.
    pub fn build(self) -> Result<Dispatcher> {
        let mut mistakes = Vec::new();
        let keys = match self.topic.as_deref().map(TopicKeys::new) {
            Some(keys) => keys.map_err(|error| mistakes.push(error.to_string())).ok(),
            None => {
                mistakes.push("no topic: add .topic(\"name\")".to_owned());
                None
            }
        };
        if self.publisher.is_none() {
            mistakes.push("no publisher: add .publisher(function)".to_owned());
        }
        mistakes.extend(mistake_in_lease("the lease", self.lease));
        let counts = [("batch", self.batch, 1_000), ("concurrency", self.concurrency, 10_000)];
        for (what, count, most) in counts {
            if !(1..=most).contains(&count) {
                mistakes.push(format!("{what} {count} is outside of 1 to {most}"));
            }
        }
        if self.budget.max_attempts == 0 {
            mistakes.push("max_attempts 0: the first attempt counts".to_owned());
        }
        let owner = self.owner.unwrap_or_else(default_owner);
        if let Some(keys) = &keys
            && let Err(error) = self.scope.lease(&format!("outbox-member:{}:{owner}", keys.topic()))
        {
            mistakes.push(format!("owner and topic together: {error}"));
        }
        match (keys, self.publisher) {
            (Some(keys), Some(publisher)) if mistakes.is_empty() => Ok(Dispatcher {
                control: Arc::new(Control::new(self.lease)),
                keys,
                parts: Parts {
                    scope: self.scope,
                    publisher,
                    owner: owner.into(),
                    lease: self.lease,
                    poll: self.poll,
                    timeout: self.timeout,
                    batch: self.batch,
                    concurrency: self.concurrency,
                    budget: self.budget,
                    keep: self.keep,
                },
            }),
            _ => Err(Error::invalid(format!("the dispatcher cannot be built: {}", mistakes.join("; ")))),
        }
    }
}
