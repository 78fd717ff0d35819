//! Sweep and check.

use sqlx::{PgConnection, Row};

use super::fault::Fault;
use super::hints::Topic;
use super::pool::Verb;
use super::{PgStore, number};
use crate::model::task::TaskId;
use crate::store::{CheckReport, Place, RetentionLimits, SweepReport};

/// One bounded step of upkeep.
pub(super) struct Sweep {
    pub(super) at: Place,
    pub(super) queue: String,
    pub(super) limits: RetentionLimits,
}

impl Verb for Sweep {
    type Answer = SweepReport;

    fn gives_back(&self) -> bool {
        true
    }

    fn touches(&self) -> Vec<Topic> {
        vec![Topic::ready(&self.at, &self.queue), Topic::finished(&self.at, &self.queue)]
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<SweepReport, Fault> {
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else {
            return Ok(SweepReport { more: self.limits.steps == 0, ..SweepReport::default() });
        };
        let steps = i32::try_from(self.limits.steps).unwrap_or(i32::MAX);
        let row = sqlx::query(&store.sql("select * from aedb.sweep($1, $2, $3, $4, $5)"))
            .bind(store.test_now())
            .bind(queue)
            .bind(number::to_sql(self.limits.records))
            .bind(number::to_sql(self.limits.bytes))
            .bind(steps)
            .fetch_one(conn)
            .await?;
        let count = |name: &str| Ok::<_, Fault>(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or_default());
        let died: Vec<i64> = row.try_get("died")?;
        let died: Vec<TaskId> = died.into_iter().map(|id| TaskId::from_u64(number::from_sql(id))).collect();
        let (promoted, reclaimed) = (count("promoted")?, count("reclaimed")?);
        let (keys_expired, pruned) = (count("keys_expired")?, count("pruned")?);
        let steps = self.limits.steps as u64;
        let more = promoted + reclaimed + keys_expired + pruned >= steps || died.len() as u64 == steps;
        Ok(SweepReport { promoted, reclaimed, keys_expired, pruned, died, more })
    }
}

/// Compares what follows from the tasks with them, and puts it right if asked.
pub(super) struct Check<const REPAIR: bool> {
    pub(super) at: Place,
    pub(super) queue: String,
}

impl<const REPAIR: bool> Verb for Check<REPAIR> {
    type Answer = CheckReport;
    const WRITES: bool = REPAIR;
    const IS_LONG: bool = true;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<CheckReport, Fault> {
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else {
            return Ok(CheckReport::default());
        };
        let row = sqlx::query(&store.sql("select * from aedb.check_queue($1, $2)"))
            .bind(queue)
            .bind(REPAIR)
            .fetch_one(conn)
            .await?;
        let count = |name: &str| Ok::<_, Fault>(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or_default());
        Ok(CheckReport { records: count("records")?, problems: row.try_get("problems")?, repaired: count("repaired")? })
    }
}
