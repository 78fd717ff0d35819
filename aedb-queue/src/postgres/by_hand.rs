//! Cancel, amend, retry, delete: what people do to tasks by their ids; and pause, what they do to a queue.

use std::collections::HashSet;

use sqlx::PgConnection;

use super::fault::Fault;
use super::hints::Topic;
use super::pool::Verb;
use super::{PgStore, number};
use crate::model::task::TaskId;
use crate::store::{Amendment, Place};

/// What is done to each of the tasks.
pub(super) enum Hand {
    Cancel,
    Amend(Amendment),
    Retry,
    Delete,
}

pub(super) struct ByHand {
    pub(super) at: Place,
    pub(super) queue: String,
    pub(super) ids: Vec<TaskId>,
    pub(super) hand: Hand,
}

impl Verb for ByHand {
    type Answer = Vec<bool>;

    fn gives_back(&self) -> bool {
        true
    }

    fn touches(&self) -> Vec<Topic> {
        vec![Topic::ready(&self.at, &self.queue), Topic::finished(&self.at, &self.queue)]
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Vec<bool>, Fault> {
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else {
            return Ok(self.ids.iter().map(|_| false).collect());
        };
        let ids: Vec<i64> = self.ids.iter().map(|id| number::to_sql(id.as_u64())).collect();
        let text = match &self.hand {
            Hand::Cancel => "select aedb.cancel($1, $2, $3)",
            Hand::Amend(_) => "select aedb.amend($1, $2, $3, $4, $5, $6, $7, $8)",
            Hand::Retry => "select aedb.retry($1, $2, $3)",
            Hand::Delete => "select aedb.remove($2, $3) where $1 is null or $1 is not null",
        };
        let text = store.sql(text);
        let mut query = sqlx::query_scalar(&text).bind(store.test_now()).bind(queue).bind(&ids);
        if let Hand::Amend(Amendment { terms }) = &self.hand {
            let backoff = terms.backoff.as_ref().map(number::backoff);
            query = query
                .bind(terms.priority.map(number::rank))
                .bind(terms.max_attempts.map(i64::from))
                .bind(backoff.map(|[base, ..]| base))
                .bind(backoff.map(|[_, cap, _]| cap))
                .bind(backoff.map(|[.., jitter]| jitter));
        }
        let done: Vec<i64> = query.fetch_one(conn).await?;
        // Of an id that comes twice the first changes it.
        let mut done: HashSet<i64> = done.into_iter().collect();
        let amends = matches!(self.hand, Hand::Amend(_));
        Ok(ids.iter().map(|id| if amends { done.contains(id) } else { done.remove(id) }).collect())
    }
}

pub(super) struct Pause {
    pub(super) at: Place,
    pub(super) queue: String,
    pub(super) paused: bool,
}

impl Verb for Pause {
    type Answer = ();

    fn touches(&self) -> Vec<Topic> {
        vec![Topic::ready(&self.at, &self.queue)]
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<(), Fault> {
        let queue = store.queue_number(conn, &self.at, &self.queue).await?;
        sqlx::query(&store.sql("select aedb.pause($1, $2, $3)"))
            .bind(store.test_now())
            .bind(queue)
            .bind(self.paused)
            .execute(conn)
            .await?;
        Ok(())
    }
}
