//! Running a verb: a connection, a transaction where one is needed, and the one loop that tries again.

use std::future::Future;
use std::time::Duration;

use sqlx::{Acquire, PgConnection};

use super::PgStore;
use super::connections::Lent;
use super::fault::Fault;
use super::grant::{self, Target};
use super::hints::Topic;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Access, Place};

/// How often a verb is tried that other transactions undo.
const TRIES: u32 = 10;

/// The patience with what reads every record, or waits for those who do.
const LONG: Duration = Duration::from_hours(1);

/// What a call does on a connection. It may be run again after the server has undone it.
pub(super) trait Verb: Send + Sync + 'static {
    /// What it answers.
    type Answer: Send + 'static;
    /// Whether it changes something.
    const WRITES: bool = true;

    /// Whether it may take longer than others, such as what reads every record.
    const IS_LONG: bool = false;

    /// Whether it may bring tasks back into their old places in line.
    fn gives_back(&self) -> bool {
        false
    }

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
                Err(tried) => return Err(tried.error()),
                Ok(answer) => {
                    if verb.gives_back() {
                        self.0.hints.forget_floors();
                    }
                    self.0.hints.give(verb.touches());
                    return Ok(answer);
                }
            }
        }
    }

    /// Runs a verb that no caller's grants decide about.
    pub(super) async fn by_operator<V: Verb>(&self, verb: &V) -> Result<V::Answer> {
        let mut lent = self.lend().await?;
        let ran = self.bounded::<V, _>(async { verb.run(self, &mut lent.conn).await.map_err(Tried::of::<V>) }).await;
        if ran.is_ok() {
            lent.keep();
        }
        ran.map_err(Tried::error)
    }

    async fn lend(&self) -> Result<Lent> {
        self.0.connections.lend().await.map_err(|error| Fault::Sql(error).not_applied())
    }

    async fn once<V: Verb>(&self, at: &Place, target: &Target, verb: &V) -> Result<V::Answer, Tried> {
        let mut lent = self.lend().await?;
        let ran = self.bounded::<V, _>(self.on(&mut lent.conn, at, target, verb)).await;
        lent.keep_after(&ran);
        ran
    }

    async fn on<V: Verb>(
        &self,
        conn: &mut PgConnection,
        at: &Place,
        target: &Target,
        verb: &V,
    ) -> Result<V::Answer, Tried> {
        let asks = at.caller.is_some() || self.0.callers_required;
        if verb.is_one_statement() && !asks {
            return verb.run(self, conn).await.map_err(Tried::of::<V>);
        }
        let before = |fault: Fault| Tried::after(fault, false);
        let mut txn = conn.begin().await.map_err(|error| before(error.into()))?;
        let ran = async {
            let access = if V::WRITES { Access::Write } else { Access::Read };
            grant::allow(self, &mut txn, at, target, access).await?;
            verb.run(self, &mut txn).await
        };
        match ran.await.map_err(before) {
            Ok(answer) => {
                txn.commit().await.map_err(|error| Tried::of::<V>(error.into()))?;
                Ok(answer)
            }
            Err(tried) => {
                // At once, not with the connection's next use: nobody shall wait for what it holds.
                txn.rollback().await.map_err(|error| before(error.into()))?;
                Err(tried)
            }
        }
    }

    /// A call with an end: a server that does not answer costs the connection, and the caller is told.
    async fn bounded<V: Verb, T>(&self, call: impl Future<Output = Result<T, Tried>>) -> Result<T, Tried> {
        let patience = if V::IS_LONG { self.0.patience.max(LONG) } else { self.0.patience };
        tokio::time::timeout(patience, call).await.unwrap_or_else(|_elapsed| {
            let silence = std::io::Error::new(std::io::ErrorKind::TimedOut, "the server took too long to answer");
            Err(Tried::of::<V>(sqlx::Error::Io(silence).into()))
        })
    }
}

impl Lent {
    /// Gives the connection back, unless it is broken, or leads to a server that takes no writes any more.
    fn keep_after<T>(self, ran: &Result<T, Tried>) {
        if !matches!(ran, Err(Tried::Broken(_))) {
            self.keep();
        }
    }
}

enum Tried {
    /// Undone because of a neighbour.
    Again(Fault),
    Failed(Error),
    /// The same, and the connection is of no more use.
    Broken(Error),
}

impl Tried {
    /// The fault of a call that commits by itself if it writes.
    fn of<V: Verb>(fault: Fault) -> Self {
        Self::after(fault, V::WRITES)
    }

    fn after(fault: Fault, commit_was_sent: bool) -> Self {
        if fault.is_transient() {
            return Self::Again(fault);
        }
        let is_broken = fault.breaks_the_connection();
        let error = if commit_was_sent { fault.maybe_applied() } else { fault.not_applied() };
        if is_broken { Self::Broken(error) } else { Self::Failed(error) }
    }

    fn error(self) -> Error {
        match self {
            Self::Again(fault) => fault.not_applied(),
            Self::Failed(error) | Self::Broken(error) => error,
        }
    }
}

impl From<Error> for Tried {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
