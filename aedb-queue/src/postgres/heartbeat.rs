//! Heartbeat: extend leases and record progress; each item stands alone.

use std::collections::BTreeMap;

use sqlx::PgConnection;

use super::fault::Fault;
use super::pool::Verb;
use super::settle::losses;
use super::{PgStore, number};
use crate::model::transition::LeaseLoss;
use crate::store::{Heartbeat, HeartbeatOutcome, Place};

pub(super) struct Beat {
    pub(super) at: Place,
    pub(super) queue: String,
    pub(super) items: Vec<Heartbeat>,
}

impl Verb for Beat {
    type Answer = Vec<HeartbeatOutcome>;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Self::Answer, Fault> {
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else {
            return Ok(self.items.iter().map(|_| HeartbeatOutcome::LeaseLost(LeaseLoss::Gone)).collect());
        };
        // Sorted, so that no two calls can wait for one another.
        let mut items: Vec<&Heartbeat> = self.items.iter().collect();
        items.sort_by_key(|item| item.id);
        let column = |of: fn(&Heartbeat) -> i64| items.iter().map(|item| of(item)).collect::<Vec<_>>();
        let progress: Option<Vec<Option<&str>>> = items
            .iter()
            .any(|item| item.progress.is_some())
            .then(|| items.iter().map(|item| item.progress.as_ref().map(|progress| progress.as_str())).collect());
        let extended: Vec<(i64, i64)> =
            sqlx::query_as(&store.sql("select * from aedb.heartbeat($1, $2, $3, $4, $5, $6)"))
                .bind(store.test_now())
                .bind(queue)
                .bind(column(|item| number::to_sql(item.id.as_u64())))
                .bind(column(|item| number::to_sql(item.token.as_u64())))
                .bind(column(|item| number::length(item.lease.length())))
                .bind(progress)
                .fetch_all(&mut *conn)
                .await?;
        let extended: BTreeMap<i64, i64> = extended.into_iter().collect();
        let deadline = |item: &Heartbeat| extended.get(&number::to_sql(item.id.as_u64())).copied();
        let mut lost = BTreeMap::new();
        for (at, item) in self.items.iter().enumerate().filter(|(_, item)| deadline(item).is_none()) {
            lost.insert(at, (number::to_sql(item.id.as_u64()), number::to_sql(item.token.as_u64())));
        }
        let losses: BTreeMap<usize, LeaseLoss> = losses(store, conn, queue, lost).await?.into_iter().collect();
        let answer = |(at, item): (usize, &Heartbeat)| match deadline(item) {
            Some(deadline) => HeartbeatOutcome::Extended(number::instant(deadline)),
            None => HeartbeatOutcome::LeaseLost(losses.get(&at).copied().unwrap_or(LeaseLoss::Gone)),
        };
        Ok(self.items.iter().enumerate().map(answer).collect())
    }
}
