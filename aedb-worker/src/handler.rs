//! Handlers: what runs the tasks of one name.

use std::any::type_name;
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use aedb_queue::{Json, NewTask};
use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::TaskContext;
use crate::defaults::Defaults;
use crate::error::TaskError;
use crate::extract::Needs;
use crate::graph::Edge;
use crate::outcome::Outcome;
use crate::state::States;
use crate::version;

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
    type Input: TaskInput;
    /// The result that a finished task keeps; `()` for none.
    type Output: Serialize;

    /// The name of the tasks that it runs.
    fn name(&self) -> &str;

    /// How its tasks are enqueued and run unless one says otherwise.
    fn defaults(&self) -> Defaults {
        Defaults::new()
    }

    /// Names that it had in earlier releases: their tasks are run, too.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// Says what the worker must have, so that [`build`](crate::WorkerBuilder::build) can tell what is missing.
    fn needs(&self, needs: &mut Needs<'_>) {
        let _ = needs;
    }

    /// The tasks that it enqueues as follow-ups, for [`Worker::graph`](crate::Worker::graph) and the checks of `build`.
    fn follow_ups(&self) -> Vec<Edge> {
        Vec::new()
    }

    /// Reads the input; here is the place for forms that it had in earlier releases.
    ///
    /// # Errors
    ///
    /// If the payload does not have the form of the input: the attempt fails.
    fn decode(&self, cx: &TaskContext) -> Result<Self::Input, TaskError> {
        Ok(cx.payload()?)
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
    fn task(&self, input: &Self::Input) -> aedb_queue::Result<NewTask> {
        Ok(self.defaults().apply(NewTask::new(self.name(), input)?))
    }
}

/// What a task can carry: a type that owns its data, can be sent to another thread, and goes to JSON and back.
pub trait TaskInput: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> TaskInput for T {}

/// What an attempt ended with, whatever the handler's types: its [`Outcome`], or why it failed.
pub type Decided = Result<Outcome<Json>, TaskError>;

/// A handler whatever its types.
#[async_trait]
pub(crate) trait AnyHandler: Send + Sync {
    async fn run(&self, cx: TaskContext) -> Decided;
}

/// Asks a handler which states it lacks.
type Missing = Box<dyn Fn(&States) -> Vec<&'static str> + Send + Sync>;

/// A handler with what the worker needs to know of it.
pub(crate) struct Registered {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) defaults: Defaults,
    /// It is here under an earlier name.
    pub(crate) is_alias: bool,
    pub(crate) follow_ups: Vec<Edge>,
    /// The name of the input's type.
    pub(crate) input: &'static str,
    /// The states that it needs and these lack.
    pub(crate) missing: Missing,
    /// The form of the input.
    #[cfg(feature = "lock")]
    pub(crate) form: fn() -> Vec<String>,
}

impl Registered {
    /// A function, of which nothing more is known.
    pub(crate) fn plain<I: DeserializeOwned>(handler: Arc<dyn AnyHandler>) -> Self {
        Self {
            handler,
            defaults: Defaults::new(),
            is_alias: false,
            follow_ups: Vec::new(),
            input: type_name::<I>(),
            missing: Box::new(|_| Vec::new()),
            #[cfg(feature = "lock")]
            form: crate::testing::lock::form::<I>,
        }
    }
}

/// The handlers that a worker has, by name.
pub(crate) type Registry = BTreeMap<Arc<str>, Registered>;

struct Typed<H>(H);

#[async_trait]
impl<H: Handler> AnyHandler for Typed<H> {
    async fn run(&self, cx: TaskContext) -> Decided {
        let today = self.0.defaults().version.unwrap_or(1);
        let (known, told) = (version::of(&cx) <= today, version::enqueued(&cx));
        let input = match self.0.decode(&cx) {
            // A worker of a newer release will come to it, and this one must not spend its attempts.
            Err(_) if !known => return Ok(Outcome::snooze(version::WAIT)),
            decoded => decoded?,
        };
        let mut outcome = self.0.run(input, cx).await?.into_json()?;
        if told != today {
            outcome.continues_as(today)?;
        }
        Ok(outcome)
    }
}

/// A handler under its name and its earlier ones.
pub(crate) fn typed<H: Handler>(handler: H) -> Vec<(Arc<str>, Registered)> {
    let handler = Arc::new(Typed(handler));
    let register = |name: &str, is_alias: bool| {
        let asked = Arc::clone(&handler);
        let missing = move |states: &States| {
            let mut needs = Needs::of(states);
            asked.0.needs(&mut needs);
            needs.missing()
        };
        let registered = Registered {
            handler: Arc::clone(&handler) as Arc<dyn AnyHandler>,
            defaults: handler.0.defaults(),
            is_alias,
            follow_ups: handler.0.follow_ups(),
            input: type_name::<H::Input>(),
            missing: Box::new(missing),
            #[cfg(feature = "lock")]
            form: crate::testing::lock::form::<H::Input>,
        };
        (Arc::from(name), registered)
    };
    let aliases = handler.0.aliases().iter().map(|alias| register(alias, true));
    std::iter::once(register(handler.0.name(), false)).chain(aliases).collect()
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

pub(crate) fn function<F, R, I, O>(function: F) -> Arc<dyn AnyHandler>
where
    F: Fn(I, TaskContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome<O>, TaskError>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
{
    Arc::new(Function(function, PhantomData))
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
        crate::private::blocking(move || {
            let input = cx.payload()?;
            Ok(function(input, cx)?.into_json()?)
        })
        .await
    }
}

pub(crate) fn blocking<F, I, O>(function: F) -> Arc<dyn AnyHandler>
where
    F: Fn(I, TaskContext) -> Result<Outcome<O>, TaskError> + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
{
    Arc::new(Blocking(Arc::new(function), PhantomData))
}
