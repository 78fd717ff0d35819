//! A task's row, as the record that it is.

use std::sync::Arc;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::fault::Fault;
use super::number::{self, instant, small};
use crate::error::{Error, ErrorKind, Result};
use crate::model::json::Json;
use crate::model::task::{Counters, DeadReason, Failure, FencingToken, TaskId, TaskState};
use crate::store::TaskRecord;

/// What is read of a task, from `aedb.task t`.
pub(super) const COLUMNS: &str = "t.id, t.state, t.attempts, t.failures, t.deliveries, t.lost, t.snoozes, t.reason, t.rank, t.enqueued,
    t.updated, t.at, t.token, t.claimed, t.ends, t.name, t.owner, t.policy[1] as max_attempts, t.key, t.metadata, t.failed,
    case when t.beside & 1 = 0 then t.payload else (select value from aedb.body b where b.task = t.id and b.slot = 0) end as payload,
    case when t.beside & 2 = 0 then t.progress else (select value from aedb.body b where b.task = t.id and b.slot = 1) end as progress,
    case when t.beside & 4 = 0 then t.result else (select value from aedb.body b where b.task = t.id and b.slot = 2) end as result";

pub(super) fn record(row: &PgRow, queue: &Arc<str>) -> Result<TaskRecord, Fault> {
    let json = |column: &str| Ok::<_, Fault>(row.try_get::<Option<&str>, _>(column)?.map(Json::trusted));
    let max_attempts: Option<i64> = row.try_get("max_attempts")?;
    Ok(TaskRecord {
        id: TaskId::from_u64(number::from_sql(row.try_get("id")?)),
        queue: Arc::clone(queue),
        name: row.try_get::<&str, _>("name")?.into(),
        state: state(row)?,
        priority: number::priority(row.try_get("rank")?),
        payload: json("payload")?.ok_or_else(|| corrupt("a long value is missing"))?,
        progress: json("progress")?,
        result: json("result")?,
        failures: failures(row)?,
        counters: counters(row)?,
        max_attempts: max_attempts.map_or(20, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        token: FencingToken::from_u64(number::from_sql(row.try_get("token")?)),
        enqueued: instant(row.try_get("enqueued")?),
        updated: instant(row.try_get("updated")?),
        idempotency_key: row.try_get::<Option<&str>, _>("key")?.map(Arc::from),
        metadata: metadata(row.try_get("metadata")?),
    })
}

pub(super) fn counters(row: &PgRow) -> Result<Counters, Fault> {
    Ok(Counters {
        attempts: small(row.try_get("attempts")?),
        failures: small(row.try_get("failures")?),
        deliveries: small(row.try_get("deliveries")?),
        lost_leases: small(row.try_get("lost")?),
        snoozes: small(row.try_get("snoozes")?),
    })
}

pub(super) fn state(row: &PgRow) -> Result<TaskState, Fault> {
    let at = instant(row.try_get("at")?);
    let number: i16 = row.try_get("state")?;
    Ok(match number {
        0 => TaskState::Scheduled { due: at },
        1 => TaskState::Ready { since: at },
        2 => TaskState::InFlight {
            owner: row.try_get::<Option<&str>, _>("owner")?.unwrap_or_default().into(),
            deadline: at,
            claimed: instant(row.try_get::<Option<i64>, _>("claimed")?.unwrap_or_default()),
        },
        3 => TaskState::Done { at },
        4 => TaskState::Dead { at, reason: reason(row.try_get("reason")?) },
        5 => TaskState::Cancelled { at },
        _ => return Err(corrupt("its state is unknown").into()),
    })
}

fn reason(number: Option<i16>) -> DeadReason {
    match number {
        Some(1) => DeadReason::AttemptsSpent,
        Some(2) => DeadReason::Fatal,
        Some(3) => DeadReason::LeasesLost,
        _ => DeadReason::Damaged,
    }
}

fn failures(row: &PgRow) -> Result<Vec<Failure>, Fault> {
    let texts: Option<Vec<String>> = row.try_get("failed")?;
    let texts = texts.unwrap_or_default();
    let failure = |part: &[String]| match part {
        [at, attempt, error] => Some(Failure {
            at: instant(at.parse().ok()?),
            attempt: attempt.parse().ok()?,
            error: error.as_str().into(),
        }),
        _ => None,
    };
    Ok(texts.chunks(3).filter_map(failure).collect())
}

pub(super) fn metadata(text: Option<&str>) -> Vec<(Arc<str>, Arc<str>)> {
    let pairs: Vec<(String, String)> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

pub(super) fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a stored record is damaged: {what}"))
}
