//! How to build a worker: few knobs, each with its default.

mod checks;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aedb_queue::{Error, LiveWorker, Result, Scope, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::TaskContext;
use crate::error::TaskError;
use crate::handler::{self, Handler, Registered};
use crate::layer::Layer;
use crate::outcome::Outcome;
use crate::run::{Line, host};
use crate::state::States;
use crate::tasks::Tasks;
use crate::worker::{Parts, Worker};

pub(crate) use checks::mistake_in_lease;
use checks::mistake_in_name;

/// A worker's announcement is a lease by its name and this prefix.
const OWNER_BYTES: usize = limits::NAME_BYTES - LiveWorker::PREFIX.len();

/// How to build a [`Worker`]. Each knob has a default, but for the queue and the handlers.
#[must_use = "a builder does nothing until it is built"]
pub struct WorkerBuilder {
    scope: Scope,
    queues: Vec<(String, u32)>,
    strict: bool,
    handlers: Vec<(Arc<str>, Registered)>,
    states: States,
    layers: Vec<Arc<dyn Layer>>,
    owner: Option<String>,
    concurrency: usize,
    prefetch: usize,
    lease: Duration,
    grace: Duration,
    poll: Duration,
    checkpoint_every: Duration,
    mistakes: Vec<String>,
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("queues", &self.queues)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

impl WorkerBuilder {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            scope,
            queues: Vec::new(),
            strict: false,
            handlers: Vec::new(),
            states: States::default(),
            layers: Vec::new(),
            owner: None,
            concurrency: 16,
            prefetch: 0,
            lease: Duration::from_secs(30),
            grace: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            checkpoint_every: Duration::ZERO,
            mistakes: Vec::new(),
        }
    }

    /// A queue to work on, beside those added before. The queues that its [tasks](crate::task) name are worked on, too.
    pub fn queue(self, name: &str) -> Self {
        self.weighted_queue(name, 1)
    }

    /// The same, with its share of claims while all queues have work; at least 1, which is the share of other queues.
    pub fn weighted_queue(mut self, name: &str, weight: u32) -> Self {
        self.queues.push((name.to_owned(), weight));
        self
    }

    /// Serves a queue only while those added before it have nothing due; by default queues share by weight.
    pub fn strict_order(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Runs the tasks of a [`Handler`]'s name.
    pub fn task<H: Handler>(mut self, handler: H) -> Self {
        self.handlers.extend(handler::typed(handler));
        self
    }

    /// Runs the tasks of a list: `.tasks(tasks![charge, send_receipt])`.
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        self.handlers.extend(tasks.0);
        self
    }

    /// Runs the tasks of this name with an async function of the payload and the context.
    pub fn handler<F, R, I, O>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(I, TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome<O>, TaskError>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
    {
        self.handlers.push((name.into(), Registered::plain::<I>(handler::function(function))));
        self
    }

    /// Runs the tasks of this name with a function that blocks its thread, on the runtime's pool for such: one thread an attempt, so
    /// at most as many as the concurrency. It cannot be stopped by force: let it look at [`TaskContext::is_cancelled`] now and then.
    pub fn blocking<F, I, O>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(I, TaskContext) -> Result<Outcome<O>, TaskError> + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
    {
        self.handlers.push((name.into(), Registered::plain::<I>(handler::blocking(function))));
        self
    }

    /// The longest that one attempt of the handler added last may run; by default there is no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        match self.handlers.last_mut() {
            Some((_, last)) => last.defaults.timeout = Some(timeout),
            None => self.mistakes.push("a timeout belongs behind the handler that it is for".to_owned()),
        }
        self
    }

    /// Shares a value with all handlers, by its type: [`TaskContext::state`].
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        if !self.states.add(value) {
            self.mistakes.push(format!("two states of type {}", std::any::type_name::<T>()));
        }
        self
    }

    /// Wraps every attempt. The layer added first is the outermost.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Who the worker is in leases and in the list of workers: unique among all that run. By default the host, the process and a number.
    pub fn owner(mut self, owner: &str) -> Self {
        self.owner = Some(owner.to_owned());
        self
    }

    /// How many attempts run at once, 1 to 10,000; by default 16.
    pub fn concurrency(mut self, attempts: usize) -> Self {
        self.concurrency = attempts;
        self
    }

    /// How many more tasks are claimed ahead, so that an attempt that ends is followed without a claim in between; by default none.
    /// Worth its while for many short tasks: then take as many as the concurrency.
    pub fn prefetch(mut self, tasks: usize) -> Self {
        self.prefetch = tasks;
        self
    }

    /// How long a lease is, 1 s to 24 h; by default 30 s. It is extended three times in that span, so it is how long a task of a
    /// worker that died waits for another.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long attempts may go on after the worker is told to stop; by default 10 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long a claim waits for a wake-up before it looks by itself, 10 ms to 1 min; by default 1 s. Upkeep comes every tenth time.
    pub fn poll_interval(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Writes an attempt's checkpoints at most this often; by default every one, at once. The last one is never lost to an attempt
    /// that fails, panics, or is stopped; to a worker that dies it may be.
    pub fn checkpoint_every(mut self, span: Duration) -> Self {
        self.checkpoint_every = span;
        self
    }

    /// Checks everything at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid), naming every mistake.
    pub fn build(mut self) -> Result<Worker> {
        self.add_queues_of_tasks();
        let lines = self.lines();
        let registry = self.registry();
        let owner = self.owner.take().unwrap_or_else(default_owner);
        self.mistakes.extend(mistake_in_name("owner", &owner, OWNER_BYTES));
        self.check_numbers();
        if !self.mistakes.is_empty() {
            return Err(Error::invalid(format!("the worker cannot be built: {}", self.mistakes.join("; "))));
        }
        Ok(Worker::new(Parts {
            scope: self.scope,
            lines,
            strict: self.strict,
            registry,
            states: Arc::new(self.states),
            layers: self.layers,
            owner: owner.into(),
            concurrency: self.concurrency,
            prefetch: self.prefetch,
            lease: self.lease,
            grace: self.grace,
            poll: self.poll,
            checkpoint_every: self.checkpoint_every,
        }))
    }

    /// A task that is enqueued to its own queue must not wait there for a worker that has its handler and looks elsewhere.
    fn add_queues_of_tasks(&mut self) {
        for (_, registered) in &self.handlers {
            if let Some(own) = &registered.defaults.queue
                && !self.queues.iter().any(|(name, _)| name == own)
            {
                self.queues.push((own.clone().into_owned(), 1));
            }
        }
    }

    fn lines(&mut self) -> Vec<Line> {
        let (mut lines, mut seen) = (Vec::new(), BTreeSet::new());
        for (name, weight) in &self.queues {
            if *weight == 0 {
                self.mistakes.push(format!("queue {name} has the weight 0; the least is 1"));
            }
            if !seen.insert(name) {
                self.mistakes.push(format!("queue {name} is named twice"));
            }
            match self.scope.queue(name) {
                Ok(queue) => lines.push(Line { queue, weight: (*weight).max(1) }),
                Err(error) => self.mistakes.push(error.to_string()),
            }
        }
        if self.queues.is_empty() {
            self.mistakes.push("no queue: add .queue(\"name\")".to_owned());
        }
        lines
    }
}

/// Unique among the workers of all processes of all hosts that share a database, as long as host names are.
pub(crate) fn default_owner() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let host: String = host().chars().take(100).collect();
    format!("{host}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
