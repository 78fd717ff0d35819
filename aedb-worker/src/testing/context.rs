//! Contexts made by hand.

use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{ClaimedTask, Json, Result};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::context::{Keeper, TaskContext};
use crate::error::TaskError;
use crate::handler::Handler;
use crate::outcome::Outcome;
use crate::state::States;

/// A context of a task of this name with this payload, on its first attempt. Nothing is written anywhere: look at
/// [`TaskContext::effects`] and [`TaskContext::checkpoints`] afterwards.
///
/// # Errors
///
/// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) if the payload cannot be written as JSON.
pub fn context<I: Serialize + ?Sized>(name: &str, payload: &I) -> Result<ContextBuilder> {
    let task = ClaimedTask::detached("test", name, Json::of(payload)?);
    Ok(ContextBuilder { task, states: States::default(), cancelled: CancellationToken::new() })
}

/// Runs a handler once, with its input through JSON as in life, and answers what it decided and the context it had.
///
/// # Errors
///
/// The handler's own, and [`TaskError`] if the input does not survive JSON.
pub async fn perform<H>(handler: &H, input: &H::Input) -> (Result<Outcome<H::Output>, TaskError>, TaskContext)
where
    H: Handler,
{
    let payload = Json::of(input).unwrap_or_else(|_| Json::null());
    let task = ClaimedTask::detached("test", handler.name(), payload);
    let cx = ContextBuilder { task, states: States::default(), cancelled: CancellationToken::new() }.build();
    let decided = match handler.decode(&cx) {
        Ok(input) => handler.run(input, cx.clone()).await,
        Err(error) => Err(error),
    };
    (decided, cx)
}

/// A context in the making.
#[derive(Debug)]
#[must_use]
pub struct ContextBuilder {
    task: ClaimedTask,
    states: States,
    cancelled: CancellationToken,
}

impl ContextBuilder {
    /// Which attempt it is, from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.task.counters.attempts = attempt;
        self.task.counters.deliveries = attempt;
        self
    }

    /// The queue, instead of `test`.
    pub fn queue(mut self, queue: &str) -> Self {
        self.task.queue = queue.into();
        self
    }

    /// What an earlier attempt recorded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) if it cannot be written as JSON.
    pub fn progress<T: Serialize + ?Sized>(mut self, progress: &T) -> Result<Self> {
        self.task.progress = Some(Json::of(progress)?);
        Ok(self)
    }

    /// What travels with the task.
    pub fn metadata(mut self, name: &str, value: &str) -> Self {
        self.task.metadata.push((name.into(), value.into()));
        self
    }

    /// What the application shares with its handlers.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.add(value);
        self
    }

    /// The handler has been asked to stop already.
    pub fn cancelled(self) -> Self {
        self.cancelled.cancel();
        self
    }

    /// The context.
    pub fn build(self) -> TaskContext {
        TaskContext::new(Arc::new(self.task), Arc::new(self.states), self.cancelled, Keeper::Nobody)
    }
}

/// The length of the leases that contexts of a [`Kit`](super::Kit) have.
pub(super) const LEASE: Duration = Duration::from_secs(30);
