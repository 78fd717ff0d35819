//! The application's own keys, and effects that ride in a commit.

use sqlx::PgConnection;

use super::enqueue::Batch;
use super::fault::Fault;
use super::hints::Topic;
use super::pool::Verb;
use super::{PgStore, grant};
use crate::error::{Error, ErrorKind, Result};
use crate::model::limits;
use crate::store::{Effect, Effects, Expect, KeyRange, Place, not_aedb};

/// Applies effects, or answers with the conflict, in the caller's transaction.
pub(super) async fn apply(
    store: &PgStore,
    conn: &mut PgConnection,
    at: &Place,
    effects: &Effects,
) -> Result<(), Fault> {
    lock(store, conn, at, effects.iter()).await?;
    match apply_locked(store, conn, at, effects).await? {
        None => Ok(()),
        Some(key) => Err(conflict(&key).into()),
    }
}

pub(super) fn conflict(key: &[u8]) -> Error {
    let key = key.escape_ascii();
    Error::new(ErrorKind::Conflict, format!("the key {key} is not as asserted; nothing was applied"))
}

/// Locks every key that the effects name, all at once and in one order.
pub(super) async fn lock(
    store: &PgStore,
    conn: &mut PgConnection,
    at: &Place,
    effects: impl Iterator<Item = &Effect>,
) -> Result<(), Fault> {
    let keys: Vec<&[u8]> = effects
        .filter_map(|effect| match effect {
            Effect::Put { key, .. } | Effect::Delete { key } | Effect::Assert { key, .. } => Some(key.as_slice()),
            Effect::Append { .. } | Effect::Enqueue { .. } | Effect::Native(_) => None,
        })
        .collect();
    if !keys.is_empty() {
        let scope = store.scope_number(conn, at).await?;
        sqlx::query(&store.sql("select aedb.lock_keys($1, $2)")).bind(scope).bind(keys).execute(conn).await?;
    }
    Ok(())
}

/// Applies effects whose keys are locked. The answer is the key that is not as asserted; then nothing was applied.
pub(super) async fn apply_locked(
    store: &PgStore,
    conn: &mut PgConnection,
    at: &Place,
    effects: &Effects,
) -> Result<Option<Vec<u8>>, Fault> {
    let (mut kinds, mut keys, mut values) = (Vec::<i16>::new(), Vec::<&[u8]>::new(), Vec::<Option<&[u8]>>::new());
    let mut batch = Batch::default();
    for effect in effects.iter() {
        let (kind, key, value) = match effect {
            Effect::Put { key, value } => (0, key, Some(value.as_slice())),
            Effect::Delete { key } => (1, key, None),
            Effect::Assert { key, expect: Expect::Absent } => (2, key, None),
            Effect::Assert { key, expect: Expect::Present } => (3, key, None),
            Effect::Assert { key, expect: Expect::Value(value) } => (4, key, Some(value.as_slice())),
            Effect::Append { prefix, value } => (5, prefix, Some(value.as_slice())),
            Effect::Native(_) => return Err(not_aedb().into()),
            Effect::Enqueue { queue, task } => {
                let queue = store.queue_number(conn, at, queue).await?;
                batch.push(queue, task);
                continue;
            }
        };
        kinds.push(kind);
        keys.push(key);
        values.push(value);
    }
    if !kinds.is_empty() {
        let scope = store.scope_number(conn, at).await?;
        let failed: Option<Vec<u8>> = sqlx::query_scalar(&store.sql("select aedb.apply_keys($1, $2, $3, $4, $5)"))
            .bind(store.test_now())
            .bind(scope)
            .bind(kinds)
            .bind(keys)
            .bind(values)
            .fetch_one(&mut *conn)
            .await?;
        if failed.is_some() {
            return Ok(failed);
        }
    }
    if !batch.is_empty() {
        batch.run(store, conn).await?;
    }
    Ok(None)
}

/// The queues that effects enqueue to.
pub(super) fn touches(at: &Place, effects: &Effects) -> impl Iterator<Item = Topic> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Enqueue { queue, .. } => Some(Topic::ready(at, queue)),
        _ => None,
    })
}

/// Effects by themselves.
pub(super) struct Commit {
    pub(super) at: Place,
    pub(super) effects: Effects,
}

impl Verb for Commit {
    type Answer = ();

    fn is_one_statement(&self) -> bool {
        false
    }

    fn touches(&self) -> Vec<Topic> {
        touches(&self.at, &self.effects).collect()
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<(), Fault> {
        grant::allow_effects(store, conn, &self.at, &self.effects).await?;
        apply(store, conn, &self.at, &self.effects).await
    }
}

/// One key's value.
pub(super) struct Get {
    pub(super) at: Place,
    pub(super) key: Vec<u8>,
}

impl Verb for Get {
    type Answer = Option<Vec<u8>>;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Option<Vec<u8>>, Fault> {
        let text = "select k.value from aedb.app_key k join aedb.scope s on s.id = k.scope
            where s.project = $1 and s.name = $2 and k.key = $3";
        let value = sqlx::query_scalar(&store.sql(text))
            .bind(&*self.at.project)
            .bind(&*self.at.scope)
            .bind(&self.key)
            .fetch_optional(conn)
            .await?;
        Ok(value)
    }
}

/// The keys of a range in order.
pub(super) struct Scan {
    pub(super) at: Place,
    pub(super) range: KeyRange,
}

impl Verb for Scan {
    type Answer = Vec<(Vec<u8>, Vec<u8>)>;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Self::Answer, Fault> {
        let limit = self.range.limit.unwrap_or(limits::PAGE).min(limits::PAGE);
        let text = "select k.key, k.value from aedb.app_key k join aedb.scope s on s.id = k.scope
            where s.project = $1 and s.name = $2 and k.key >= $3 and ($4::bytea is null or k.key < $4)
                and ($5::bytea is null or k.key > $5)
            order by k.key limit $6";
        let found = sqlx::query_as(&store.sql(text))
            .bind(&*self.at.project)
            .bind(&*self.at.scope)
            .bind(&self.range.prefix)
            .bind(after(&self.range.prefix))
            .bind(&self.range.after)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(conn)
            .await?;
        Ok(found)
    }
}

/// The first key behind all that begin with a prefix, if there is one.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}
