//! The verbs inside of the caller's own SQL transaction.

use sqlx::PgConnection;

use super::PgStore;
use super::enqueue::Enqueue;
use super::fault::Fault;
use super::hints::Topic;
use super::lease;
use super::pool::Verb;
use super::settle::{self, Settle};
use crate::error::{Error, ErrorKind, Result};
use crate::model::limits;
use crate::queue::Queue;
use crate::scope::Scope;
use crate::store::{Effect, Effects, EnqueueOutcome, FencedCommit, HeldLease, NewTask, Settlement};

impl PgStore {
    /// Enqueues tasks in the caller's transaction: they exist if and only if it commits.
    ///
    /// Workers find them at their next poll; [`PgStore::wake`] after the commit makes that at once. Grants are not asked: the
    /// transaction's own role decides.
    ///
    /// # Errors
    ///
    /// As [`Queue::enqueue`](crate::Queue::enqueue). An error of the server leaves the transaction aborted.
    pub async fn enqueue_in(
        &self,
        conn: &mut PgConnection,
        queue: &Queue,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<EnqueueOutcome>> {
        limits::at_most("tasks in a batch", limits::BATCH, tasks.len())?;
        tasks.iter().try_for_each(NewTask::check)?;
        let (at, queue) = (queue.at.clone(), queue.name().to_owned());
        self.number_ahead(&at, [queue.as_str()].into_iter()).await?;
        let verb = Enqueue { at, queue, tasks, effects: Effects::new() };
        verb.run(self, conn).await.map_err(Fault::not_applied)
    }

    /// Settles claims in the caller's transaction. Call it last: it holds the tasks until the commit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LeaseLost`] if one of the leases is lost, [`ErrorKind::Conflict`] if an assertion does not hold: roll back, so
    /// that nothing of it is committed. Else as [`Queue::settle`](crate::Queue::settle).
    pub async fn settle_in(&self, conn: &mut PgConnection, queue: &Queue, items: Vec<Settlement>) -> Result<()> {
        limits::at_most("items in a settle", limits::BATCH, items.len())?;
        items.iter().try_for_each(Settlement::check)?;
        let (at, name) = (queue.at.clone(), queue.name().to_owned());
        let queue_of = |effect: &'_ Effect| match effect {
            Effect::Enqueue { queue, .. } => Some(queue.clone()),
            _ => None,
        };
        let follow_ups: Vec<String> =
            items.iter().filter_map(settle::effects).flat_map(Effects::iter).filter_map(queue_of).collect();
        self.number_ahead(&at, follow_ups.iter().map(String::as_str)).await?;
        let verb = Settle { at, queue: name, items };
        for answer in verb.run(self, conn).await.map_err(Fault::not_applied)? {
            if let FencedCommit::LeaseLost(loss) = answer? {
                let message = format!("a task's lease was lost ({loss:?}); roll back");
                return Err(Error::new(ErrorKind::LeaseLost, message));
            }
        }
        Ok(())
    }

    /// Holds a lease for the rest of the caller's transaction: nobody takes it over before the commit or rollback.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LeaseLost`] if it is not held any more: roll back.
    pub async fn lease_guard_in(&self, conn: &mut PgConnection, scope: &Scope, held: &HeldLease) -> Result<()> {
        self.number_ahead(scope.place(), std::iter::empty()).await?;
        if lease::guard(self, conn, scope.place(), held).await.map_err(Fault::not_applied)? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::LeaseLost, format!("the lease {} is not held any more; roll back", held.name)))
    }

    /// Wakes claims that wait for a queue, here and in other processes: for after a commit of the caller's own.
    pub fn wake(&self, queue: &Queue) {
        self.0.hints.give(vec![Topic::ready(&queue.at, queue.name()), Topic::finished(&queue.at, queue.name())]);
    }
}
