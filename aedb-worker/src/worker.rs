//! A worker: what it claims, what it runs, and how long it takes to stop.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{Db, Error, Queue, Result, Scope};

use crate::context::TaskContext;
use crate::error::TaskError;
use crate::handler::{Handlers, erase};
use crate::outcome::Outcome;
use crate::run::claim;

/// Claims and runs the tasks of one queue.
pub struct Worker {
    pub(crate) queue: Queue,
    pub(crate) handlers: Handlers,
    pub(crate) owner: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) lease: Duration,
    pub(crate) grace: Duration,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.handlers.keys().collect();
        f.debug_struct("Worker").field("queue", &self.queue.name()).field("handlers", &names).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker on the default scope of a database.
    pub fn builder(db: &Db) -> WorkerBuilder {
        Self::builder_in(db.default_scope())
    }

    /// A worker on a scope.
    pub fn builder_in(scope: Scope) -> WorkerBuilder {
        WorkerBuilder {
            scope,
            queue: None,
            handlers: Vec::new(),
            owner: None,
            concurrency: 16,
            lease: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }

    /// Runs until a future ends, then stops claiming, lets attempts finish for the grace, cancels the rest and gives their
    /// tasks back, charged nothing. A second after the grace it returns whatever the handlers do.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](aedb_queue::ErrorKind::PermissionDenied) without a grant. Claims that fail because the store
    /// cannot serve are tried again, at least every 5 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped run stops as if the grace were over, and its tasks are given back while the runtime goes on.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<()> {
        claim::run(self, stop, false).await
    }

    /// Runs until nothing is due: no task of its names is ready, in flight here, or scheduled.
    ///
    /// # Errors
    ///
    /// As [`Worker::run_until`], and if the store cannot say what is left.
    ///
    /// # Cancel safety
    ///
    /// As [`Worker::run_until`].
    pub async fn drain(self) -> Result<()> {
        claim::run(self, std::future::pending(), true).await
    }
}

/// How to build a [`Worker`]. Each knob has a default.
#[must_use = "a builder does nothing until it is built"]
pub struct WorkerBuilder {
    scope: Scope,
    queue: Option<String>,
    handlers: Vec<(Arc<str>, crate::handler::Handler)>,
    owner: Option<String>,
    concurrency: usize,
    lease: Duration,
    grace: Duration,
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("queue", &self.queue)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

impl WorkerBuilder {
    /// The queue to work on.
    pub fn queue(mut self, name: &str) -> Self {
        self.queue = Some(name.to_owned());
        self
    }

    /// Runs tasks of this name with this function.
    pub fn handler<F, R>(mut self, name: &str, handler: F) -> Self
    where
        F: Fn(TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = std::result::Result<Outcome, TaskError>> + Send + 'static,
    {
        self.handlers.push((name.into(), erase(handler)));
        self
    }

    /// Who the worker is in leases; by default `worker-` and the process id.
    pub fn owner(mut self, owner: &str) -> Self {
        self.owner = Some(owner.to_owned());
        self
    }

    /// How many attempts run at once; by default 16.
    pub fn concurrency(mut self, attempts: usize) -> Self {
        self.concurrency = attempts;
        self
    }

    /// How long a lease is; by default 30 s. It is extended three times in that span.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long attempts may go on after the worker is told to stop; by default 10 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Checks everything at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid), naming every mistake.
    pub fn build(self) -> Result<Worker> {
        let mut mistakes = Vec::new();
        let queue = match self.queue.as_deref().map(|name| self.scope.queue(name)) {
            Some(Ok(queue)) => Some(queue),
            Some(Err(error)) => {
                mistakes.push(error.to_string());
                None
            }
            None => {
                mistakes.push("no queue: add .queue(\"name\")".to_owned());
                None
            }
        };
        let owner = self.owner.unwrap_or_else(|| format!("worker-{}", std::process::id()));
        mistakes.extend(mistake_in_name("owner", &owner));
        let mut handlers = Handlers::new();
        for (name, handler) in self.handlers {
            mistakes.extend(mistake_in_name("handler name", &name));
            if handlers.insert(Arc::clone(&name), handler).is_some() {
                mistakes.push(format!("two handlers for {name}"));
            }
        }
        if handlers.is_empty() {
            mistakes.push("no handlers: add .handler(\"name\", function)".to_owned());
        }
        if !(1..=10_000).contains(&self.concurrency) {
            mistakes.push(format!("concurrency {} is outside of 1 to 10,000", self.concurrency));
        }
        let (least, most) = (aedb_queue::limits::LEASE_MIN, aedb_queue::limits::LEASE_MAX);
        if !(least..=most).contains(&self.lease) {
            mistakes.push(format!("a lease of {:?} is outside of {least:?} to {most:?}", self.lease));
        }
        match queue {
            Some(queue) if mistakes.is_empty() => Ok(Worker {
                queue,
                handlers,
                owner: owner.into(),
                concurrency: self.concurrency,
                lease: self.lease,
                grace: self.grace,
            }),
            _ => Err(Error::invalid(format!("the worker cannot be built: {}", mistakes.join("; ")))),
        }
    }
}

/// What the queue would refuse about a name, found before the worker runs.
fn mistake_in_name(what: &str, name: &str) -> Option<String> {
    let most = aedb_queue::limits::NAME_BYTES;
    let fits = (1..=most).contains(&name.len()) && !name.chars().any(char::is_control);
    (!fits).then(|| format!("{what} {name:?} must have 1 to {most} bytes without control characters"))
}
