//! What an attempt decides when it does not fail.

use aedb_queue::{Completion, Due, Effects, Json, NewTask, Result};
use serde::Serialize;

/// What becomes of a task whose handler returned.
///
/// Everything in it becomes durable in one commit, or nothing does.
#[derive(Debug)]
pub struct Outcome(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Done(Completion),
    Snooze(Due),
}

impl Outcome {
    /// The task is done.
    pub fn done() -> Self {
        Self(Kind::Done(Completion::new()))
    }

    /// The task is done, with a result to keep in its record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) if the result cannot be written as JSON.
    pub fn done_with<T: Serialize + ?Sized>(result: &T) -> Result<Self> {
        Json::of(result).map(|result| Self(Kind::Done(Completion::new().result(result))))
    }

    /// Run the task later; nothing is charged.
    pub fn snooze(until: Due) -> Self {
        Self(Kind::Snooze(until))
    }

    /// Enqueues a follow-up with the acknowledgement.
    #[must_use]
    pub fn then(self, queue: &str, task: NewTask) -> Self {
        self.map(|completion| completion.follow_up(queue, task))
    }

    /// Writes an application key with the acknowledgement.
    #[must_use]
    pub fn put(self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.effects(Effects::new().put(key, value))
    }

    /// Applies effects with the acknowledgement.
    #[must_use]
    pub fn effects(self, effects: Effects) -> Self {
        self.map(|completion| completion.effects(effects))
    }

    /// A snoozed task commits nothing, so there is nothing to add to it.
    fn map(self, add: impl FnOnce(Completion) -> Completion) -> Self {
        match self.0 {
            Kind::Done(completion) => Self(Kind::Done(add(completion))),
            snooze @ Kind::Snooze(_) => Self(snooze),
        }
    }
}
