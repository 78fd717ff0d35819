//! Calls of a task: how it is enqueued, typed by its handler.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use aedb_queue::{
    Db, Effects, EnqueueOutcome, Error, ErrorKind, Json, NewTask, Queue, Result, Scope, StateKind, TaskId, Timestamp,
    WaitOutcome,
};
use serde::de::DeserializeOwned;

use crate::handler::Handler;

/// A task with its input, before it is enqueued.
#[must_use = "a call does nothing until it is enqueued"]
pub struct Call<H> {
    queue: String,
    task: Result<NewTask>,
    effects: Effects,
    of: PhantomData<fn() -> H>,
}

impl<H> fmt::Debug for Call<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("queue", &self.queue).field("task", &self.task).finish_non_exhaustive()
    }
}

impl<H: Handler> Call<H> {
    /// A call of a handler, with its defaults. A mistake in the input is told when it is enqueued.
    #[expect(clippy::needless_pass_by_value, reason = "handlers of tasks are empty types")]
    pub fn new(handler: H, input: &H::Input) -> Self {
        let queue = handler.defaults().queue_name().to_owned();
        Self { queue, task: handler.task(input), effects: Effects::new(), of: PhantomData }
    }

    /// Another queue than the task's own.
    pub fn queue(mut self, queue: &str) -> Self {
        queue.clone_into(&mut self.queue);
        self
    }

    /// Due this long after the commit.
    pub fn delay(self, delay: Duration) -> Self {
        self.edit(|task| task.delay(delay))
    }

    /// Due at an instant.
    pub fn at(self, at: Timestamp) -> Self {
        self.edit(|task| task.at(at))
    }

    /// Served before all due tasks of lower priority.
    pub fn priority(self, priority: u64) -> Self {
        self.edit(|task| task.priority(priority))
    }

    /// Enqueued only if no task of this key is there, unfinished or finished within 24 h.
    pub fn key(self, key: &str) -> Self {
        self.edit(|task| task.idempotency_key(key))
    }

    /// The key that the task's attribute made of the input.
    #[doc(hidden)]
    pub fn unique(mut self, key: Result<Json>, window: Option<Duration>) -> Self {
        match key {
            Ok(key) => self.edit(|task| {
                let key = format!("{}:{}", task.name(), key.as_str());
                match window {
                    Some(window) => task.idempotency_key_for(key, window),
                    None => task.idempotency_key(key),
                }
            }),
            Err(error) => {
                self.task = Err(error);
                self
            }
        }
    }

    /// A name and value that travel with it.
    pub fn metadata(self, name: &str, value: &str) -> Self {
        self.edit(|task| task.metadata(name, value))
    }

    /// Anything else that a [`NewTask`] can be told.
    pub fn edit(mut self, edit: impl FnOnce(NewTask) -> NewTask) -> Self {
        self.task = self.task.map(edit);
        self
    }

    /// The application's own writes in the same commit: the task exists if and only if they do.
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = self.effects.and(effects);
        self
    }

    /// As a task for [`Queue::enqueue_batch`] and [`Effects::enqueue`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the input cannot be written as JSON.
    pub fn into_task(self) -> Result<NewTask> {
        self.task
    }

    /// As a follow-up of a task that does not declare it.
    pub fn into_follow_up(self) -> FollowUp {
        FollowUp { queue: self.queue, task: self.task }
    }

    /// Enqueues it, to its own queue of a database or scope, or to a given queue. Await it.
    pub fn to(self, to: &impl Target) -> Enqueue<'_, H> {
        Enqueue { call: self, to }
    }
}

/// Where a call goes: a database or a scope, which have the task's own queue, or a queue.
pub trait Target: Sync {
    /// The queue.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the name is not acceptable.
    fn queue_of(&self, name: &str) -> Result<Queue>;
}

impl Target for Db {
    fn queue_of(&self, name: &str) -> Result<Queue> {
        self.queue(name)
    }
}

impl Target for Scope {
    fn queue_of(&self, name: &str) -> Result<Queue> {
        self.queue(name)
    }
}

impl Target for Queue {
    fn queue_of(&self, _name: &str) -> Result<Queue> {
        Ok(self.clone())
    }
}

/// An enqueue on its way; await it.
///
/// # Errors
///
/// As [`Queue::enqueue_with`].
///
/// # Cancel safety
///
/// As [`Queue::enqueue`].
#[must_use = "await it to enqueue the task"]
pub struct Enqueue<'a, H> {
    call: Call<H>,
    to: &'a dyn Target,
}

impl<H> fmt::Debug for Enqueue<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

/// The same builder methods as those of the call within.
macro_rules! pass {
    ($($(#[$doc:meta])* $method:ident($value:ident: $ty:ty);)+) => {
        impl<H: Handler> Enqueue<'_, H> {
            $($(#[$doc])*
            pub fn $method(mut self, $value: $ty) -> Self {
                self.call = self.call.$method($value);
                self
            })+
        }
    };
}

pass! {
    /// Due this long after the commit.
    delay(delay: Duration);
    /// Due at an instant.
    at(at: Timestamp);
    /// Served before all due tasks of lower priority.
    priority(priority: u64);
    /// Enqueued only if no task of this key is there, unfinished or finished within 24 h.
    key(key: &str);
    /// Another queue than the task's own.
    queue(queue: &str);
    /// The application's own writes in the same commit.
    effects(effects: Effects);
}

impl<'a, H: Handler> IntoFuture for Enqueue<'a, H> {
    type Output = Result<EnqueueOutcome>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let (queue, call) = (self.to.queue_of(&self.call.queue), self.call);
        Box::pin(async move { queue?.enqueue_with(call.task?, call.effects).await })
    }
}

impl<H: Handler> Enqueue<'_, H> {
    /// Enqueues it and waits for its result.
    ///
    /// # Errors
    ///
    /// As [`Queue::enqueue_with`] and [`Queue::wait_for`], and [`WaitError::Unfinished`] with the task's end if that was no result.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the task may be enqueued and goes on.
    pub async fn wait(self, timeout: Duration) -> Result<H::Output, WaitError>
    where
        H::Output: DeserializeOwned,
    {
        let queue = self.to.queue_of(&self.call.queue)?;
        let id = queue.enqueue_with(self.call.task?, self.call.effects).await?.id;
        let record = match queue.wait_for(id, timeout).await? {
            WaitOutcome::Finished(record) => record,
            WaitOutcome::Gone => return Err(WaitError::Unfinished { id, state: None, last: None }),
            WaitOutcome::Pending(state) => return Err(WaitError::Unfinished { id, state: Some(state), last: None }),
        };
        if record.state.kind() == StateKind::Done {
            return Ok(record.result.unwrap_or_else(Json::null).to()?);
        }
        let last = record.failures.last().map(|failure| failure.error.to_string());
        Err(WaitError::Unfinished { id, state: Some(record.state.kind()), last })
    }
}

/// Why there is no result to wait for.
#[derive(Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// The queue's own error.
    Queue(Error),
    /// The task has not ended in a result.
    Unfinished {
        /// The task.
        id: TaskId,
        /// Where it is; `None` if its record is gone.
        state: Option<StateKind>,
        /// Its last failure.
        last: Option<String>,
    },
}

impl From<Error> for WaitError {
    fn from(error: Error) -> Self {
        Self::Queue(error)
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(error) => error.fmt(f),
            Self::Unfinished { id, state: None, .. } => write!(f, "the record of task {id} is gone"),
            Self::Unfinished { id, state: Some(state), last } => {
                write!(f, "task {id} is {state}")?;
                last.as_ref().map_or(Ok(()), |last| write!(f, ": {}", last.escape_debug()))
            }
        }
    }
}

impl std::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Queue(error) => Some(error),
            Self::Unfinished { .. } => None,
        }
    }
}

impl WaitError {
    /// What to do about it, as of the queue's errors; a task that ended without a result is [`ErrorKind::NotFound`].
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Queue(error) => error.kind(),
            Self::Unfinished { .. } => ErrorKind::NotFound,
        }
    }
}

/// A task to be enqueued with the commit that completes its parent.
#[derive(Debug)]
pub struct FollowUp {
    pub(crate) queue: String,
    pub(crate) task: Result<NewTask>,
}

impl From<(&str, NewTask)> for FollowUp {
    fn from((queue, task): (&str, NewTask)) -> Self {
        Self { queue: queue.to_owned(), task: Ok(task) }
    }
}
