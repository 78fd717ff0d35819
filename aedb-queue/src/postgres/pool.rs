//! Running a verb: a connection, a transaction where one is needed, and the one loop that tries again.

use std::future::Future;
use std::time::Duration;

use sqlx::{Acquire, PgConnection};

use super::PgStore;
use super::fault::Fault;
use super::grant::{self, Target};
use super::hints::Topic;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Access, Place};

/// How often a verb is tried that other transactions undo.
const TRIES: u32 = 10;

/// What a call does on a connection. It may be run again after the server has undone it.
pub(super) trait Verb: Send + Sync + 'static {
    /// What it answers.
    type Answer: Send + 'static;
    /// Whether it changes something.
    const WRITES: bool = true;

    /// Whom to wake once it is committed.
    fn touches(&self) -> Vec<Topic> {
        Vec::new()
    }

    /// Does it. What it reads and writes is in one transaction.
    fn run(&self, store: &PgStore, conn: &mut PgConnection)
    -> impl Future<Output = Result<Self::Answer, Fault>> + Send;

    /// Whether it is one statement, which is a transaction of its own.
    fn is_one_statement(&self) -> bool {
        true
    }
}

impl PgStore {
    /// Runs a verb to its end, whether or not the caller still waits for it.
    pub(super) async fn call<V: Verb>(&self, at: &Place, target: Target, verb: V) -> Result<V::Answer> {
        let (store, at) = (self.clone(), at.clone());
        self.detached(async move { store.attempts(&at, &target, &verb).await }).await
    }

    /// Runs a future on the store's own runtime, so that callers may use any other.
    pub(super) async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.0.runtime.spawn(work).await.unwrap_or_else(|stopped| {
            Err(Error::new(ErrorKind::UnknownOutcome, "the runtime that the database was connected on has ended")
                .caused_by(stopped))
        })
    }

    /// The one place that tries again: what the server undid because of a neighbour was not applied.
    pub(super) async fn attempts<V: Verb>(&self, at: &Place, target: &Target, verb: &V) -> Result<V::Answer> {
        let mut tries = 0;
        loop {
            match self.once(at, target, verb).await {
                Err(Tried::Again(_)) if tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(1 << tries.min(6))).await;
                }
                Err(Tried::Again(fault)) => return Err(fault.not_applied()),
                Err(Tried::Failed(error)) => return Err(error),
                Ok(answer) => {
                    self.0.hints.give(verb.touches());
                    return Ok(answer);
                }
            }
        }
    }

    /// Runs a verb that no caller's grants decide about.
    pub(super) async fn by_operator<V: Verb>(&self, verb: &V) -> Result<V::Answer> {
        let mut conn = self.0.pool.acquire().await.map_err(|error| Fault::Sql(error).not_applied())?;
        verb.run(self, &mut conn).await.map_err(Fault::maybe_applied)
    }

    async fn once<V: Verb>(&self, at: &Place, target: &Target, verb: &V) -> Result<V::Answer, Tried> {
        let mut conn = self.0.pool.acquire().await.map_err(|error| Fault::Sql(error).not_applied())?;
        let asks = at.caller.is_some() || self.0.callers_required;
        if verb.is_one_statement() && !asks {
            return verb.run(self, &mut conn).await.map_err(|fault| Tried::after(fault, V::WRITES));
        }
        let before = |fault: Fault| Tried::after(fault, false);
        let mut txn = conn.begin().await.map_err(|error| before(error.into()))?;
        grant::allow(self, &mut txn, at, target, if V::WRITES { Access::Write } else { Access::Read })
            .await
            .map_err(before)?;
        let answer = verb.run(self, &mut txn).await.map_err(before)?;
        txn.commit().await.map_err(|error| Tried::after(error.into(), V::WRITES))?;
        Ok(answer)
    }
}

enum Tried {
    Again(Fault),
    Failed(Error),
}

impl Tried {
    fn after(fault: Fault, commit_was_sent: bool) -> Self {
        match fault {
            fault if fault.is_transient() => Self::Again(fault),
            fault if commit_was_sent => Self::Failed(fault.maybe_applied()),
            fault => Self::Failed(fault.not_applied()),
        }
    }
}

impl From<Error> for Tried {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
