//! Enqueue: tasks and effects in one commit.

use sqlx::{PgConnection, Row};

use super::fault::Fault;
use super::hints::Topic;
use super::pool::Verb;
use super::{PgStore, app_keys, grant, number};
use crate::error::Result;
use crate::model::task::TaskId;
use crate::store::{Effects, EnqueueOutcome, NewTask, Place};

pub(super) struct Enqueue {
    pub(super) at: Place,
    pub(super) queue: String,
    pub(super) tasks: Vec<NewTask>,
    pub(super) effects: Effects,
}

impl Verb for Enqueue {
    type Answer = Vec<EnqueueOutcome>;

    fn is_one_statement(&self) -> bool {
        self.effects.is_empty()
    }

    fn touches(&self) -> Vec<Topic> {
        let own = (!self.tasks.is_empty()).then(|| Topic::ready(&self.at, &self.queue));
        own.into_iter().chain(app_keys::touches(&self.at, &self.effects)).collect()
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Vec<EnqueueOutcome>, Fault> {
        if !self.effects.is_empty() {
            grant::allow_effects(store, conn, &self.at, &self.effects).await?;
            app_keys::apply(store, conn, &self.at, &self.effects).await?;
        }
        if self.tasks.is_empty() {
            return Ok(Vec::new());
        }
        let queue = store.queue_number(conn, &self.at, &self.queue).await?;
        let mut batch = Batch::default();
        self.tasks.iter().for_each(|task| batch.push(queue, task));
        batch.run(store, conn).await
    }
}

/// New tasks, in the arrays that the server takes. A column that is empty has its default in every row.
#[derive(Default)]
pub(super) struct Batch<'a> {
    queues: Vec<i32>,
    names: Vec<&'a str>,
    payloads: Vec<&'a str>,
    ranks: Column<i64>,
    after: Column<i64>,
    at: Column<i64>,
    policies: Column<String>,
    metadata: Column<String>,
    keys: Column<&'a str>,
}

impl<'a> Batch<'a> {
    pub(super) fn push(&mut self, queue: i32, task: &'a NewTask) {
        let row = self.queues.len();
        let (after, at) = number::due(task.due);
        self.queues.push(queue);
        self.names.push(&task.name);
        self.payloads.push(task.payload.as_str());
        self.ranks.set(row, (task.priority > 0).then(|| number::rank(task.priority)));
        self.after.set(row, after);
        self.at.set(row, at);
        self.policies.set(row, number::policy(&task.policy, task.key.as_ref()));
        self.metadata.set(row, metadata(&task.metadata));
        self.keys.set(row, task.key.as_ref().map(|key| &*key.text));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(super) async fn run(self, store: &PgStore, conn: &mut PgConnection) -> Result<Vec<EnqueueOutcome>, Fault> {
        let rows = self.queues.len();
        let text = "select * from aedb.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let row = sqlx::query(&store.sql(text))
            .bind(store.test_now())
            .bind(&self.queues)
            .bind(self.names)
            .bind(self.payloads)
            .bind(self.ranks.full(rows))
            .bind(self.after.full(rows))
            .bind(self.at.full(rows))
            .bind(self.policies.full(rows))
            .bind(self.metadata.full(rows))
            .bind(self.keys.full(rows))
            .fetch_one(conn)
            .await?;
        let ids: Vec<i64> = row.try_get(0)?;
        let deduplicated: Option<Vec<bool>> = row.try_get(1)?;
        let differs: Option<Vec<bool>> = row.try_get(2)?;
        let flag = |flags: &Option<Vec<bool>>, at: usize| {
            flags.as_ref().and_then(|flags| flags.get(at)).copied().unwrap_or_default()
        };
        let outcome = |(at, id): (usize, i64)| EnqueueOutcome {
            id: TaskId::from_u64(number::from_sql(id)),
            deduplicated: flag(&deduplicated, at),
            differs: flag(&differs, at),
        };
        Ok(ids.into_iter().enumerate().map(outcome).collect())
    }
}

/// A column of an array argument, which is not sent at all while every value is the default.
struct Column<T>(Vec<Option<T>>);

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Column<T> {
    fn set(&mut self, row: usize, value: Option<T>) {
        if value.is_some() {
            self.0.resize_with(row, || None);
            self.0.push(value);
        }
    }

    fn full(mut self, rows: usize) -> Option<Vec<Option<T>>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.resize_with(rows, || None);
        Some(self.0)
    }
}

/// Pairs as JSON, which keeps every text apart from its neighbours.
fn metadata(pairs: &[(std::sync::Arc<str>, std::sync::Arc<str>)]) -> Option<String> {
    if pairs.is_empty() {
        return None;
    }
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
    serde_json::to_string(&pairs).ok()
}
