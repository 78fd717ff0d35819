//! Waiting for what a call comes to.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use aedb_queue::{Error, ErrorKind, Json, StateKind, TaskId, WaitOutcome};
use serde::de::DeserializeOwned;

use crate::call::Enqueue;
use crate::handler::Handler;

impl<H: Handler> Enqueue<'_, H> {
    /// Enqueues it and waits for its result.
    ///
    /// # Errors
    ///
    /// As [`Queue::enqueue_with`](aedb_queue::Queue::enqueue_with) and [`Queue::wait_for`](aedb_queue::Queue::wait_for), and [`WaitError::Unfinished`] with the task's end if that was no result.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the task may be enqueued and goes on.
    pub async fn wait(self, timeout: Duration) -> Result<H::Output, WaitError>
    where
        H::Output: DeserializeOwned,
    {
        let (queue, enqueue) = (self.target()?, self.into_future());
        let id = enqueue.await?.id;
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

/// An enqueue that is followed to its result; await it.
///
/// # Errors
///
/// As [`Enqueue::wait`].
///
/// # Cancel safety
///
/// As [`Enqueue::wait`].
#[must_use = "await it to enqueue the task"]
#[derive(Debug)]
pub struct EnqueueAndWait<'a, H> {
    enqueue: Enqueue<'a, H>,
    timeout: Duration,
}

impl<'a, H> EnqueueAndWait<'a, H> {
    #[doc(hidden)]
    pub fn new(enqueue: Enqueue<'a, H>, timeout: Duration) -> Self {
        Self { enqueue, timeout }
    }
}

impl<'a, H: Handler<Output: DeserializeOwned>> IntoFuture for EnqueueAndWait<'a, H> {
    type Output = Result<H::Output, WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.enqueue.wait(self.timeout))
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
