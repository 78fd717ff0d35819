//! Looking: one record, counts, names of queues, and why a task is not running.

use std::sync::Arc;

use sqlx::{PgConnection, Row};

use super::fault::Fault;
use super::pool::Verb;
use super::row::{self, COLUMNS};
use super::workers::{self, Announced};
use super::{PgStore, number};
use crate::model::task::{TaskId, TaskState};
use crate::store::{Explanation, Place, QueueStats, TaskRecord};

/// Up to how many tasks ahead are counted.
const AHEAD: i64 = 10_000;

/// One record.
pub(super) struct Get {
    pub(super) at: Place,
    pub(super) queue: Arc<str>,
    pub(super) id: TaskId,
}

impl Verb for Get {
    type Answer = Option<TaskRecord>;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Option<TaskRecord>, Fault> {
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else { return Ok(None) };
        let text = format!("select {COLUMNS} from aedb.find($1, array[$2::bigint]) t");
        let row = sqlx::query(&store.sql(&text))
            .bind(queue)
            .bind(number::to_sql(self.id.as_u64()))
            .fetch_optional(conn)
            .await?;
        row.map(|row| row::record(&row, &self.queue)).transpose()
    }
}

/// Counts and oldest ages.
pub(super) struct Stats {
    pub(super) at: Place,
    pub(super) queue: String,
}

impl Verb for Stats {
    type Answer = QueueStats;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<QueueStats, Fault> {
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else {
            return Ok(QueueStats::default());
        };
        let row = sqlx::query(&store.sql("select * from aedb.stats($1)")).bind(queue).fetch_one(conn).await?;
        let count = |name: &str| Ok::<_, Fault>(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or_default());
        let at = |name: &str| Ok::<_, Fault>(row.try_get::<Option<i64>, _>(name)?.map(number::instant));
        Ok(QueueStats {
            scheduled: count("scheduled")?,
            ready: count("ready")?,
            in_flight: count("running")?,
            done: count("done")?,
            dead: count("dead")?,
            cancelled: count("cancelled")?,
            finished_bytes: count("bytes")?,
            paused: at("paused")?,
            oldest_ready: at("oldest_ready")?,
            next_deadline: at("next_deadline")?,
            next_due: at("next_due")?,
        })
    }
}

/// The queues in which a task was ever enqueued, or that are paused.
pub(super) struct Queues {
    pub(super) at: Place,
}

impl Verb for Queues {
    type Answer = Vec<String>;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Vec<String>, Fault> {
        let text = "select q.name from aedb.queue q join aedb.scope s on s.id = q.scope
            where s.project = $1 and s.name = $2
                and (q.paused is not null or exists (select 1 from aedb.tally t where t.queue = q.id))
            order by octet_length(q.name), q.name";
        let names =
            sqlx::query_scalar(&store.sql(text)).bind(&*self.at.project).bind(&*self.at.scope).fetch_all(conn).await?;
        Ok(names)
    }
}

/// Why a task is not running.
pub(super) struct Explain {
    pub(super) at: Place,
    pub(super) queue: Arc<str>,
    pub(super) id: TaskId,
}

impl Verb for Explain {
    type Answer = Explanation;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Explanation, Fault> {
        let get = Get { at: self.at.clone(), queue: Arc::clone(&self.queue), id: self.id };
        let Some(task) = get.run(store, conn).await? else { return Ok(Explanation::Unknown) };
        let last = task.failures.last().filter(|_| task.counters.failures > 0).cloned();
        Ok(match task.state {
            TaskState::InFlight { owner, deadline, .. } => Explanation::Leased { owner, until: deadline },
            TaskState::Done { at } => Explanation::Done { at },
            TaskState::Dead { at, reason } => Explanation::Dead { at, reason, last },
            TaskState::Cancelled { at } => {
                match task.failures.last().filter(|said| said.at == at && said.attempt == task.counters.attempts) {
                    Some(said) => Explanation::Discarded { at, reason: Arc::clone(&said.error) },
                    None => Explanation::Cancelled { at },
                }
            }
            TaskState::Scheduled { due } => {
                Explanation::NotDue { due, after: last, unserved: self.unserved(store, conn, &task.name).await? }
            }
            TaskState::Ready { .. } => {
                let queue = store.known_queue(conn, &self.at, &self.queue).await?;
                let text = "select q.paused, (select count(*) from (select 1 from aedb.ready r
                        where r.queue = q.id and (r.rank, r.id) < ($2, $3) limit $4) a)
                    from aedb.queue q where q.id = $1";
                let (paused, ahead): (Option<i64>, i64) = sqlx::query_as(&store.sql(text))
                    .bind(queue)
                    .bind(number::rank(task.priority))
                    .bind(number::to_sql(self.id.as_u64()))
                    .bind(AHEAD)
                    .fetch_one(&mut *conn)
                    .await?;
                match paused {
                    Some(since) => Explanation::Paused { since: number::instant(since) },
                    None => Explanation::Waiting {
                        ahead: number::from_sql(ahead),
                        unserved: self.unserved(store, conn, &task.name).await?,
                    },
                }
            }
        })
    }
}

impl Explain {
    /// The name, if workers were ever announced in the scope and none that lives knows it in the queue.
    async fn unserved(
        &self,
        store: &PgStore,
        conn: &mut PgConnection,
        name: &Arc<str>,
    ) -> Result<Option<Arc<str>>, Fault> {
        let announced = workers::announced(store, conn, &self.at).await?;
        let knows = |announced: &Announced| announced.is_live && announced.worker.knows(&self.queue, name);
        // With more of them than were looked at, nothing is said rather than something wrong.
        let unserved = !announced.is_empty() && announced.len() < workers::LOOKS && !announced.iter().any(knows);
        Ok(unserved.then(|| Arc::clone(name)))
    }
}
