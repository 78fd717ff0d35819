//! Faults: what goes wrong, and at which call.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aedb_queue::store::Store;
use aedb_queue::{Db, Error, ErrorKind, Result};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::store::FaultyStore;

/// What goes wrong with one call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Fault {
    /// The store cannot serve: nothing is applied.
    Fail,
    /// The call is applied, and its answer is lost: [`ErrorKind::UnknownOutcome`].
    LoseAnswer,
    /// The call is made this much later.
    Delay(Duration),
    /// The call is made, and answered this much later.
    Late(Duration),
    /// The call is made once this is notified.
    Hold(Arc<Notify>),
    /// The call panics.
    Panic,
}

/// What is called: the methods of [`Store`] by name; those that only read are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the method of `Store` by this name")]
pub enum Verb {
    Enqueue,
    Claim,
    Settle,
    Heartbeat,
    Cancel,
    Amend,
    Retry,
    Delete,
    Pause,
    Acquire,
    Renew,
    Release,
    GuardedCommit,
    Commit,
    Grant,
    Sweep,
    Check,
    Read,
}

/// A call on its way to the store.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Call {
    /// What it is.
    pub verb: Verb,
    /// Which call that writes this is, counted from 1; `None` for one that only reads.
    pub write: Option<u64>,
}

type Plan = dyn Fn(Call) -> Option<Fault> + Send + Sync;

/// Decides which calls fail. Cheap to clone; all clones decide for the same database.
#[derive(Clone, Default)]
pub struct Faults(Arc<State>);

#[derive(Default)]
struct State {
    writes: AtomicU64,
    plan: Mutex<Option<Arc<Plan>>>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("writes", &self.writes()).finish_non_exhaustive()
    }
}

impl Faults {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same database with these faults before it. The original stays without.
    pub fn on(&self, db: &Db) -> Db {
        let store: Arc<dyn Store> = Arc::new(FaultyStore::new(Arc::clone(db.store()), self.clone()));
        Db::with_store(store)
    }

    /// Asks this function before every call, instead of what was planned before.
    pub fn plan(&self, plan: impl Fn(Call) -> Option<Fault> + Send + Sync + 'static) {
        *self.0.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(plan));
    }

    /// Lets all calls through again.
    pub fn clear(&self) {
        *self.0.plan.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How many calls that write were made.
    pub fn writes(&self) -> u64 {
        self.0.writes.load(Ordering::SeqCst)
    }

    /// What happens before a call, and what is to become of its answer.
    pub(super) async fn before(&self, verb: Verb) -> Result<Fate> {
        let write = (verb != Verb::Read).then(|| self.0.writes.fetch_add(1, Ordering::SeqCst) + 1);
        let call = Call { verb, write };
        let plan = self.0.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match plan.and_then(|plan| plan(call)) {
            None => Ok(Fate::Told),
            Some(Fault::LoseAnswer) => Ok(Fate::Lost),
            Some(Fault::Late(delay)) => Ok(Fate::Late(delay)),
            Some(Fault::Fail) => Err(Error::new(ErrorKind::Unavailable, "a planned fault: nothing was applied")),
            Some(Fault::Delay(delay)) => {
                sleep(delay).await;
                Ok(Fate::Told)
            }
            Some(Fault::Hold(gate)) => {
                gate.notified().await;
                Ok(Fate::Told)
            }
            #[expect(clippy::panic, reason = "this is the fault that was asked for")]
            Some(Fault::Panic) => panic!("a planned panic"),
        }
    }

    /// The answer of a call, in time, late or never.
    pub(super) async fn after<T>(fate: Fate, answer: Result<T>) -> Result<T> {
        match fate {
            Fate::Told => answer,
            Fate::Late(delay) => {
                sleep(delay).await;
                answer
            }
            Fate::Lost => Err(Error::new(ErrorKind::UnknownOutcome, "a planned fault: the answer was lost")),
        }
    }
}

/// What becomes of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    Told,
    Late(Duration),
    Lost,
}
