//! Effects on the outside world that must not be repeated: begin, record the outcome, look up after a crash.

use std::fmt;

use aedb_queue::{AppKeys, Effects, Error, ErrorKind, Json, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::TaskContext;

const PREFIX: &[u8] = b"\x00once:";

/// What is known of a step that must not be done twice.
#[derive(Debug)]
#[must_use = "a step that was begun has to be done and recorded"]
pub enum Begun<T> {
    /// Nobody has begun it: do it now, then [`record`](Step::record) what came out.
    First(Step),
    /// It was done, with this outcome.
    Done(T),
    /// An earlier attempt began it and did not record an outcome: it was done, or not. Ask the other side, by the step's
    /// [key](Step::key), then record what you find, or [begin again](Step::begin_again).
    Unclear(Step),
}

/// A step that was begun.
#[must_use = "record what came out of it"]
pub struct Step {
    kv: AppKeys,
    at: Vec<u8>,
    begun: Vec<u8>,
    token: u64,
    key: String,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("key", &self.key).finish_non_exhaustive()
    }
}

impl TaskContext {
    /// Begins a step whose effect outside must not be repeated, or says what became of it in an earlier attempt.
    ///
    /// That it was begun is on disk before this answers, so after a crash the next attempt knows that the step *may* have been done. It
    /// cannot know more: no queue can, if the other side cannot be asked. And an attempt that sleeps through its lease between beginning and doing
    /// does it late, when another may have begun again. So give the other side [`Step::key`] as its idempotency key wherever it
    /// takes one; then repeating is harmless, and this saves the call.
    ///
    /// The record goes with the commit that completes the task.
    ///
    /// ```
    /// # async fn pay(key: &str) -> Result<String, std::fmt::Error> { Ok(key.to_owned()) }
    /// # async fn find(key: &str) -> Result<Option<String>, std::fmt::Error> { Ok(None) }
    /// # async fn handler(cx: aedb_worker::TaskContext) -> Result<(), aedb_worker::TaskError> {
    /// use aedb_worker::Begun;
    ///
    /// let receipt: String = match cx.once("pay").await? {
    ///     Begun::Done(receipt) => receipt,
    ///     Begun::First(step) => {
    ///         let receipt = pay(step.key()).await?;
    ///         step.record(&receipt).await?;
    ///         receipt
    ///     }
    ///     Begun::Unclear(step) => match find(step.key()).await? {
    ///         Some(receipt) => {
    ///             step.record(&receipt).await?;
    ///             receipt
    ///         }
    ///         None => {
    ///             let step = step.begin_again().await?;
    ///             let receipt = pay(step.key()).await?;
    ///             step.record(&receipt).await?;
    ///             receipt
    ///         }
    ///     },
    /// };
    /// # drop(receipt);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the outcome on record does not have the form of `T`, or the context was made by hand.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may have begun the step, and the next one finds it unclear.
    pub async fn once<T: DeserializeOwned>(&self, step: &str) -> Result<Begun<T>> {
        let kv = self.kv().ok_or_else(|| Error::invalid("a context that was made by hand has no record of steps"))?;
        let key = self.idempotency_key(step);
        let at = [PREFIX, key.as_bytes()].concat();
        let (token, begun) = (self.token().as_u64(), begun_by(self.token().as_u64())?);
        self.effects().delete(at.clone());
        let begin = Effects::new().assert_absent(at.clone()).put(at.clone(), begun.clone());
        match kv.commit(begin).await {
            Ok(()) => return Ok(Begun::First(Step { kv, at, begun, token, key })),
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
        }
        let found = kv.get(&at).await?.unwrap_or_else(|| begun.clone());
        let (earlier, outcome): (u64, Option<serde_json::Value>) = read(&found)?;
        match outcome {
            Some(outcome) => serde_json::from_value(outcome).map(Begun::Done).map_err(unreadable),
            None => Ok(Begun::Unclear(Step { kv, at, begun: begun_by(earlier)?, token, key })),
        }
    }
}

impl Step {
    /// The step's idempotency key: the same in every attempt of this task, and in no other task's.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Records what came out. Later attempts get it instead of doing the step.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`] if another attempt has begun again or recorded meanwhile: this one has lost its lease.
    pub async fn record<T: Serialize + ?Sized>(self, outcome: &T) -> Result<()> {
        let outcome = Json::of(&(self.token, Some(outcome)))?;
        self.replace(outcome.as_str().as_bytes().to_vec()).await
    }

    /// Begins an unclear step again, when the other side knows nothing of it.
    ///
    /// # Errors
    ///
    /// As [`Step::record`].
    pub async fn begin_again(self) -> Result<Self> {
        let begun = begun_by(self.token)?;
        self.replace(begun.clone()).await?;
        Ok(Self { begun, ..self })
    }

    async fn replace(&self, value: Vec<u8>) -> Result<()> {
        let (at, begun) = (self.at.clone(), self.begun.clone());
        self.kv.commit(Effects::new().assert_value(at.clone(), begun).put(at, value)).await
    }
}

/// That an attempt with this token began, and nothing came out yet.
fn begun_by(token: u64) -> Result<Vec<u8>> {
    Ok(Json::of(&(token, None::<()>))?.as_str().as_bytes().to_vec())
}

fn read(bytes: &[u8]) -> Result<(u64, Option<serde_json::Value>)> {
    serde_json::from_slice(bytes).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::invalid(format!("the recorded outcome of the step does not fit: {error}")).caused_by(error)
}
