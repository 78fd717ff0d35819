//! Handlers: what runs the tasks of one name.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{Backoff, Json, NewTask, Result};
use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::TaskContext;
use crate::error::TaskError;
use crate::outcome::Outcome;

/// Runs the tasks of one name.
///
/// `#[task]` writes it; by hand it is this:
///
/// ```
/// use aedb_worker::{Defaults, Handler, Outcome, TaskContext, TaskError};
///
/// struct Greet;
///
/// impl Handler for Greet {
///     type Input = String;
///     type Output = ();
///
///     fn name(&self) -> &str {
///         "greet"
///     }
///
///     fn defaults(&self) -> Defaults {
///         Defaults::new().max_attempts(3)
///     }
///
///     async fn run(&self, name: String, cx: TaskContext) -> Result<Outcome, TaskError> {
///         cx.effects().put(format!("greeted:{name}"), "yes");
///         Ok(Outcome::done(()))
///     }
/// }
///
/// let task = Greet.task(&"ada".to_owned())?; // to enqueue: named, with the handler's defaults
/// # assert_eq!(task.name(), "greet");
/// # Ok::<(), aedb_queue::Error>(())
/// ```
pub trait Handler: Send + Sync + 'static {
    /// What a task carries.
    type Input: DeserializeOwned + Send;
    /// The result that a finished task keeps; `()` for none.
    type Output: Serialize;

    /// The name of the tasks that it runs.
    fn name(&self) -> &str;

    /// How its tasks are enqueued and run unless one says otherwise.
    fn defaults(&self) -> Defaults {
        Defaults::new()
    }

    /// Runs one attempt. Returning is the commit.
    fn run(
        &self,
        input: Self::Input,
        cx: TaskContext,
    ) -> impl Future<Output = Result<Outcome<Self::Output>, TaskError>> + Send;

    /// A task for this handler, with its defaults.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) if the input cannot be written as JSON.
    fn task(&self, input: &Self::Input) -> Result<NewTask>
    where
        Self::Input: Serialize,
    {
        Ok(self.defaults().apply(NewTask::new(self.name(), input)?))
    }
}

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

    fn apply(self, mut task: NewTask) -> NewTask {
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
        task
    }
}

/// What an attempt ended with, whatever the handler's types: its [`Outcome`], or why it failed.
pub type Decided = Result<Outcome<Json>, TaskError>;

/// A handler whatever its types.
#[async_trait]
pub(crate) trait AnyHandler: Send + Sync {
    async fn run(&self, cx: TaskContext) -> Decided;
}

/// A handler with what the worker needs to know of it.
pub(crate) struct Registered {
    pub(crate) handler: Box<dyn AnyHandler>,
    pub(crate) defaults: Defaults,
}

/// The handlers that a worker has, by name.
pub(crate) type Registry = BTreeMap<Arc<str>, Registered>;

struct Typed<H>(H);

#[async_trait]
impl<H: Handler> AnyHandler for Typed<H> {
    async fn run(&self, cx: TaskContext) -> Decided {
        let input = cx.payload()?;
        Ok(self.0.run(input, cx).await?.into_json()?)
    }
}

pub(crate) fn typed<H: Handler>(handler: H) -> Box<dyn AnyHandler> {
    Box::new(Typed(handler))
}

/// An async function as a handler.
struct Function<F, I, O>(F, PhantomData<fn(I) -> O>);

#[async_trait]
impl<F, R, I, O> AnyHandler for Function<F, I, O>
where
    F: Fn(I, TaskContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome<O>, TaskError>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
{
    async fn run(&self, cx: TaskContext) -> Decided {
        let input = cx.payload()?;
        Ok((self.0)(input, cx).await?.into_json()?)
    }
}

pub(crate) fn function<F, R, I, O>(function: F) -> Box<dyn AnyHandler>
where
    F: Fn(I, TaskContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome<O>, TaskError>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
{
    Box::new(Function(function, PhantomData))
}

/// A function that blocks its thread, as a handler: it runs on the runtime's pool for such, one thread an attempt.
struct Blocking<F, I, O>(Arc<F>, PhantomData<fn(I) -> O>);

#[async_trait]
impl<F, I, O> AnyHandler for Blocking<F, I, O>
where
    F: Fn(I, TaskContext) -> Result<Outcome<O>, TaskError> + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
{
    async fn run(&self, cx: TaskContext) -> Decided {
        let function = Arc::clone(&self.0);
        let span = tracing::Span::current();
        let ran = tokio::task::spawn_blocking(move || {
            span.in_scope(|| {
                let input = cx.payload()?;
                Ok(function(input, cx)?.into_json()?)
            })
        });
        match ran.await {
            Ok(decided) => decided,
            // The panic goes on, to where all panics of attempts are caught.
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) fn blocking<F, I, O>(function: F) -> Box<dyn AnyHandler>
where
    F: Fn(I, TaskContext) -> Result<Outcome<O>, TaskError> + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
{
    Box::new(Blocking(Arc::new(function), PhantomData))
}
