//! What an attempt decides when it does not fail.

use std::time::Duration;

use aedb_queue::{Due, Effects, Error, Json, Result, Timestamp};
use serde::Serialize;

use crate::call::FollowUp;
use crate::version;

/// What becomes of a task whose handler returned.
///
/// Everything in it becomes durable in one commit, or nothing does. `T` is the result that a finished task keeps.
///
/// ```
/// use aedb_queue::NewTask;
/// use aedb_worker::Outcome;
///
/// let outcome = Outcome::done(42).put("answer", "42").then(("mail", NewTask::new("mail.answer", &42)?));
/// # drop(outcome);
/// # Ok::<(), aedb_queue::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "an outcome is a decision that has to be returned"]
pub struct Outcome<T = ()> {
    pub(crate) kind: Kind<T>,
    pub(crate) effects: Effects,
    pub(crate) keep: Option<Duration>,
    /// What was wrong with a follow-up: the attempt fails with it.
    mistake: Option<Error>,
}

#[derive(Debug)]
pub(crate) enum Kind<T> {
    Done(T),
    Snooze(Due),
    Discard(String),
    Continue { payload: Json, due: Due },
}

impl<T> Outcome<T> {
    fn of(kind: Kind<T>) -> Self {
        Self { kind, effects: Effects::new(), keep: None, mistake: None }
    }

    /// The task is done; its record keeps the result. `()` is no result.
    pub fn done(result: T) -> Self {
        Self::of(Kind::Done(result))
    }

    /// Run the task again this long from now; nothing is charged, and nothing is written.
    pub fn snooze(wait: Duration) -> Self {
        Self::of(Kind::Snooze(Due::After(wait)))
    }

    /// Run the task again at an instant; nothing is charged, and nothing is written.
    pub fn snooze_until(at: Timestamp) -> Self {
        Self::of(Kind::Snooze(Due::At(at)))
    }

    /// The work is no longer wanted: the task ends as cancelled, with this reason in its record, and nothing is written.
    pub fn discard(reason: impl Into<String>) -> Self {
        Self::of(Kind::Discard(reason.into()))
    }

    /// The same task goes on with another input, at once and with a fresh budget of attempts; its progress is cleared.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) if the input cannot be written as JSON.
    pub fn continue_with<I: Serialize + ?Sized>(input: &I) -> Result<Self> {
        Ok(Self::of(Kind::Continue { payload: Json::of(input)?, due: Due::Now }))
    }

    /// The same, this long from now.
    ///
    /// # Errors
    ///
    /// As [`Outcome::continue_with`].
    pub fn continue_after<I: Serialize + ?Sized>(wait: Duration, input: &I) -> Result<Self> {
        Ok(Self::of(Kind::Continue { payload: Json::of(input)?, due: Due::After(wait) }))
    }

    /// Enqueues a follow-up in the same commit: `parent::child(input)` of a [task](crate::task) that declares it, or a queue and a
    /// task, `("mail", task)`.
    pub fn then(mut self, follow_up: impl Into<FollowUp>) -> Self {
        let FollowUp { queue, task } = follow_up.into();
        match task {
            Ok(task) => self.effects = self.effects.enqueue(queue, task),
            Err(error) => self.mistake = Some(error),
        }
        self
    }

    /// Writes an application key in the same commit.
    pub fn put(mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.effects = self.effects.put(key, value);
        self
    }

    /// Applies effects in the same commit.
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = self.effects.and(effects);
        self
    }

    /// How long the finished record is kept, instead of what the task says.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// The result, if the task is done.
    pub fn result(&self) -> Option<&T> {
        if let Kind::Done(result) = &self.kind { Some(result) } else { None }
    }

    /// What is written and enqueued in the same commit.
    pub fn writes(&self) -> &Effects {
        &self.effects
    }

    /// The same outcome with its result as JSON.
    pub(crate) fn into_json(self) -> Result<Outcome<Json>>
    where
        T: Serialize,
    {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let kind = match self.kind {
            Kind::Done(result) => Kind::Done(Json::of(&result)?),
            Kind::Snooze(due) => Kind::Snooze(due),
            Kind::Discard(reason) => Kind::Discard(reason),
            Kind::Continue { payload, due } => Kind::Continue { payload, due },
        };
        Ok(Outcome { kind, effects: self.effects, keep: self.keep, mistake: None })
    }
}

impl Outcome<Json> {
    /// If the task goes on with another input, that has this version.
    pub(crate) fn continues_as(&mut self, version: u32) -> Result<()> {
        if let Kind::Continue { payload, .. } = &mut self.kind {
            *payload = version::enveloped(version, payload)?;
        }
        Ok(())
    }
}
