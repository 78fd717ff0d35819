//! Calls of a task: how it is enqueued, typed by its handler.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use aedb_queue::{Db, Effects, EnqueueOutcome, Error, Json, NewTask, Queue, Result, Scope, Timestamp};

use crate::handler::Handler;

/// A task with its input, before it is enqueued.
#[must_use = "a call does nothing until it is enqueued"]
pub struct Call<H> {
    /// The task's own queue.
    own: String,
    /// Another that the call names.
    told: Option<String>,
    task: Result<NewTask>,
    effects: Effects,
    of: PhantomData<fn() -> H>,
}

impl<H> fmt::Debug for Call<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("queue", self.told.as_ref().unwrap_or(&self.own))
            .field("task", &self.task)
            .finish_non_exhaustive()
    }
}

impl<H: Handler> Call<H> {
    /// A call of a handler, with its defaults. A mistake in the input is told when it is enqueued.
    #[expect(clippy::needless_pass_by_value, reason = "handlers of tasks are empty types")]
    pub fn new(handler: H, input: &H::Input) -> Self {
        let own = handler.defaults().queue_name().to_owned();
        Self { own, told: None, task: handler.task(input), effects: Effects::new(), of: PhantomData }
    }

    /// Another queue than the task's own.
    pub fn queue(mut self, queue: &str) -> Self {
        self.told = Some(queue.to_owned());
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
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) if the input cannot be written as JSON.
    pub fn into_task(self) -> Result<NewTask> {
        self.task
    }

    /// As a follow-up of a task that does not declare it.
    pub fn into_follow_up(self) -> FollowUp {
        FollowUp { queue: self.told.unwrap_or(self.own), task: self.task }
    }

    /// Enqueues it, to its own queue of a database or scope, or to a given queue. Await it.
    pub fn to(self, to: &impl Target) -> Enqueue<'_, H> {
        Enqueue { call: self, to }
    }
}

/// Where a call goes: a database or a scope, which have the task's own queue, or a queue.
pub trait Target: Sync {
    /// The queue of a task with a queue of its own, for a call that may name another.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) if a name is not acceptable, or the call names another queue than the one that is given.
    fn queue_of(&self, own: &str, told: Option<&str>) -> Result<Queue>;
}

impl Target for Db {
    fn queue_of(&self, own: &str, told: Option<&str>) -> Result<Queue> {
        self.queue(told.unwrap_or(own))
    }
}

impl Target for Scope {
    fn queue_of(&self, own: &str, told: Option<&str>) -> Result<Queue> {
        self.queue(told.unwrap_or(own))
    }
}

impl Target for Queue {
    fn queue_of(&self, _own: &str, told: Option<&str>) -> Result<Queue> {
        match told.filter(|told| *told != self.name()) {
            None => Ok(self.clone()),
            Some(told) => Err(Error::invalid(format!(
                "the call names the queue {told} and is given the queue {}: give it a database or a scope",
                self.name()
            ))),
        }
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
        let (queue, call) = (self.target(), self.call);
        Box::pin(async move { queue?.enqueue_with(call.task?, call.effects).await })
    }
}

impl<H> Enqueue<'_, H> {
    pub(crate) fn target(&self) -> Result<Queue> {
        self.to.queue_of(&self.call.own, self.call.told.as_deref())
    }
}

/// Some calls of one task on their way; await it.
///
/// # Errors
///
/// As [`Queue::enqueue_batch`]: up to 10,000 of them.
///
/// # Cancel safety
///
/// As [`Queue::enqueue`].
#[must_use = "await it to enqueue the tasks"]
pub struct EnqueueAll<'a> {
    to: &'a dyn Target,
    queue: &'static str,
    tasks: Result<Vec<NewTask>>,
}

impl fmt::Debug for EnqueueAll<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueAll").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl<'a> EnqueueAll<'a> {
    #[doc(hidden)]
    pub fn new(to: &'a impl Target, queue: &'static str, tasks: impl Iterator<Item = Result<NewTask>>) -> Self {
        Self { to, queue, tasks: tasks.collect() }
    }
}

impl<'a> IntoFuture for EnqueueAll<'a> {
    type Output = Result<Vec<EnqueueOutcome>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let (queue, tasks) = (self.to.queue_of(self.queue, None), self.tasks);
        Box::pin(async move { queue?.enqueue_batch(tasks?).await })
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
