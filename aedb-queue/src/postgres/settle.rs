//! Settle: what workers decided, under their tokens. Each item stands alone.

use std::collections::{BTreeMap, HashSet};

use sqlx::{PgConnection, Row};

use super::enqueue::Batch;
use super::fault::Fault;
use super::hints::Topic;
use super::pool::Verb;
use super::{PgStore, app_keys, grant, number};
use crate::error::{ErrorKind, Result};
use crate::model::limits;
use crate::model::transition::{LeaseLoss, Retry};
use crate::store::{Decision, Due, Effect, Effects, FencedCommit, Place, Settlement};

pub(super) struct Settle {
    pub(super) at: Place,
    pub(super) queue: String,
    pub(super) items: Vec<Settlement>,
}

type Answers = Vec<Option<Result<FencedCommit>>>;

impl Verb for Settle {
    type Answer = Vec<Result<FencedCommit>>;

    fn is_one_statement(&self) -> bool {
        self.items.iter().all(|item| effects(item).is_none_or(Effects::is_empty))
    }

    fn gives_back(&self) -> bool {
        self.items.iter().any(|item| !matches!(item.decision, Decision::Complete(_)))
    }

    fn touches(&self) -> Vec<Topic> {
        let follow_ups = self.items.iter().filter_map(effects).flat_map(|effects| app_keys::touches(&self.at, effects));
        let own = self.gives_back().then(|| Topic::ready(&self.at, &self.queue));
        follow_ups.chain(own).chain([Topic::finished(&self.at, &self.queue)]).collect()
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Self::Answer, Fault> {
        let mut answers: Answers = self.items.iter().map(|_| None).collect();
        if let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? {
            let mut left: Vec<usize> = (0..self.items.len()).collect();
            // The same task twice is rare: the second has its turn after the first.
            while !left.is_empty() {
                let mut seen = HashSet::new();
                let (now, later) =
                    left.into_iter().partition(|at| self.items.get(*at).is_some_and(|item| seen.insert(item.id)));
                self.round(store, conn, queue, now, &mut answers).await?;
                left = later;
            }
        }
        let gone = || Ok(FencedCommit::LeaseLost(LeaseLoss::Gone));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(gone)).collect())
    }
}

impl Settle {
    /// Settles items of which no two are about the same task.
    async fn round(
        &self,
        store: &PgStore,
        conn: &mut PgConnection,
        queue: i32,
        mut items: Vec<usize>,
        answers: &mut Answers,
    ) -> Result<(), Fault> {
        let item = |at: &usize| self.items.get(*at);
        // Sorted, so that no two settles can wait for one another.
        items.sort_by_key(|at| item(at).map(|item| item.id));
        let with_effects: Vec<usize> =
            items.iter().copied().filter(|at| item(at).is_some_and(|item| self.goes_alone(item))).collect();
        let mut refused = HashSet::new();
        if !with_effects.is_empty() {
            let all = with_effects.iter().filter_map(|at| item(at).and_then(effects)).flat_map(Effects::iter);
            app_keys::lock(store, conn, &self.at, all).await?;
            for at in with_effects {
                if let Some(answer) = self.effects_of(store, conn, queue, at).await? {
                    refused.insert(at);
                    if let Some(slot) = answers.get_mut(at) {
                        *slot = Some(answer);
                    }
                }
            }
        }
        let settled: Vec<(usize, &Settlement)> = items
            .iter()
            .filter(|at| !refused.contains(*at))
            .filter_map(|at| item(at).map(|item| (*at, item)))
            .collect();
        let done: HashSet<i64> = apply(store, conn, queue, &settled).await?.into_iter().collect();
        let (mut lost, mut follow_ups) = (BTreeMap::new(), Batch::default());
        for (at, item) in settled {
            let id = number::to_sql(item.id.as_u64());
            if done.contains(&id) {
                if let Some(slot) = answers.get_mut(at) {
                    *slot = Some(Ok(FencedCommit::Applied));
                }
                for effect in effects(item).into_iter().flat_map(Effects::iter).filter(|_| !self.goes_alone(item)) {
                    if let Effect::Enqueue { queue, task } = effect {
                        follow_ups.push(store.queue_number(conn, &self.at, queue).await?, task);
                    }
                }
            } else {
                lost.insert(at, (id, number::to_sql(item.token.as_u64())));
            }
        }
        if !follow_ups.is_empty() {
            follow_ups.run(store, conn).await?;
        }
        for (at, loss) in losses(store, conn, queue, lost).await? {
            if let Some(slot) = answers.get_mut(at) {
                *slot = Some(Ok(FencedCommit::LeaseLost(loss)));
            }
        }
        Ok(())
    }

    /// Whether an item's effects can refuse it, so that they come first. Follow-ups cannot: those of all items go together.
    fn goes_alone(&self, item: &Settlement) -> bool {
        let is_follow_up = |effect: &Effect| matches!(effect, Effect::Enqueue { .. });
        effects(item).is_some_and(|all| !all.is_empty() && (self.at.caller.is_some() || !all.iter().all(is_follow_up)))
    }

    /// Applies an item's effects if its lease is held, which it then is until the commit. `Some` is the answer of an item
    /// that is refused.
    async fn effects_of(
        &self,
        store: &PgStore,
        conn: &mut PgConnection,
        queue: i32,
        at: usize,
    ) -> Result<Option<Result<FencedCommit>>, Fault> {
        let Some((item, effects)) = self.items.get(at).and_then(|item| Some((item, effects(item)?))) else {
            return Ok(None);
        };
        let (id, token) = (number::to_sql(item.id.as_u64()), number::to_sql(item.token.as_u64()));
        let text = "select 1 from aedb.running r where r.id = $1 and r.token = $2 and r.queue = $3 for update";
        let held = sqlx::query(&store.sql(text)).bind(id).bind(token).bind(queue).fetch_optional(&mut *conn).await?;
        if held.is_none() {
            let lost = losses(store, conn, queue, BTreeMap::from([(at, (id, token))])).await?;
            let loss = lost.first().map_or(LeaseLoss::Gone, |(_, loss)| *loss);
            return Ok(Some(Ok(FencedCommit::LeaseLost(loss))));
        }
        match grant::allow_effects(store, conn, &self.at, effects).await {
            Err(Fault::Said(error)) if error.kind() == ErrorKind::PermissionDenied => return Ok(Some(Err(error))),
            other => other?,
        }
        let conflict = app_keys::apply_locked(store, conn, &self.at, effects).await?;
        Ok(conflict.map(|key| Err(app_keys::conflict(&key))))
    }
}

pub(super) fn effects(item: &Settlement) -> Option<&Effects> {
    match &item.decision {
        Decision::Complete(completion) => Some(&completion.effects),
        Decision::Continue { effects, .. } => Some(effects),
        Decision::Fail { .. } | Decision::Snooze(_) | Decision::Release | Decision::Discard { .. } => None,
    }
}

/// The items in the arrays that the server takes; answers the ids that were settled.
async fn apply(
    store: &PgStore,
    conn: &mut PgConnection,
    queue: i32,
    items: &[(usize, &Settlement)],
) -> Result<Vec<i64>, Fault> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = Rows::default();
    items.iter().for_each(|(_, item)| rows.push(item));
    let done: Vec<i64> = sqlx::query_scalar(&store.sql("select aedb.settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"))
        .bind(store.test_now())
        .bind(queue)
        .bind(rows.ids)
        .bind(rows.tokens)
        .bind(rows.kinds)
        .bind(rows.values)
        .bind(rows.keeps)
        .bind(rows.after)
        .bind(rows.at)
        .bind(rows.fatal)
        .fetch_one(conn)
        .await?;
    Ok(done)
}

#[derive(Default)]
struct Rows {
    ids: Vec<i64>,
    tokens: Vec<i64>,
    kinds: Vec<i16>,
    values: Vec<Option<String>>,
    keeps: Vec<Option<i64>>,
    after: Vec<Option<i64>>,
    at: Vec<Option<i64>>,
    fatal: Vec<bool>,
}

impl Rows {
    fn push(&mut self, item: &Settlement) {
        let mut keep = None;
        let (kind, value, due, fatal) = match &item.decision {
            Decision::Complete(completion) => {
                keep = completion.keep.map(number::length);
                (0, completion.result.as_ref().map(|json| json.as_str().to_owned()), Due::Now, false)
            }
            Decision::Fail { error, retry } => {
                let due = if let Retry::At(at) = retry { Due::At(*at) } else { Due::Now };
                (1, Some(limits::error_text(error)), due, *retry == Retry::Fatal)
            }
            Decision::Snooze(due) => (2, None, *due, false),
            Decision::Release => (3, None, Due::Now, false),
            Decision::Discard { reason } => (4, Some(limits::error_text(reason)), Due::Now, false),
            Decision::Continue { payload, due, .. } => (5, Some(payload.as_str().to_owned()), *due, false),
        };
        let (after, at) = number::due(due);
        self.ids.push(number::to_sql(item.id.as_u64()));
        self.tokens.push(number::to_sql(item.token.as_u64()));
        self.kinds.push(kind);
        self.values.push(value);
        self.keeps.push(keep);
        self.after.push(after);
        self.at.push(at);
        self.fatal.push(fatal);
    }
}

/// Why writes were refused: by their places, of ids and tokens.
pub(super) async fn losses(
    store: &PgStore,
    conn: &mut PgConnection,
    queue: i32,
    lost: BTreeMap<usize, (i64, i64)>,
) -> Result<Vec<(usize, LeaseLoss)>, Fault> {
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<i64> = lost.values().map(|(id, _)| *id).collect();
    // A cancel by hand adds no text to the record: that tells a discard.
    let text = "select t.id, t.state, t.token, t.at::text = t.failed[cardinality(t.failed) - 2]
            and t.attempts::text = t.failed[cardinality(t.failed) - 1] as discarded
        from aedb.find($1, $2) t";
    let rows = sqlx::query(&store.sql(text)).bind(queue).bind(ids).fetch_all(conn).await?;
    let mut found = BTreeMap::new();
    for row in rows {
        let id: i64 = row.try_get("id")?;
        let discarded: Option<bool> = row.try_get("discarded")?;
        found.insert(id, (row.try_get::<i16, _>("state")?, row.try_get::<i64, _>("token")?, discarded == Some(true)));
    }
    let loss = |id: &i64, token: &i64| match found.get(id) {
        None => LeaseLoss::Gone,
        Some((5, has, true)) if has == token => LeaseLoss::AlreadySettled,
        Some((5, ..)) => LeaseLoss::Cancelled,
        Some((3, has, _)) if has == token => LeaseLoss::AlreadySettled,
        Some(_) => LeaseLoss::TakenOver,
    };
    Ok(lost.iter().map(|(at, (id, token))| (*at, loss(id, token))).collect())
}
