//! Claim: one call to the server for a batch, again and again while it may wait.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{PgConnection, Row};
use tokio::sync::oneshot;

use super::alarm::Alarm;
use super::fault::Fault;
use super::grant::Target;
use super::hints::{Names, Topic};
use super::pool::Verb;
use super::settle::Settle;
use super::{PgStore, number, row};
use crate::error::{Error, ErrorKind, Result};
use crate::model::json::Json;
use crate::model::task::{FencingToken, TaskId};
use crate::store::{ClaimRequest, ClaimedTask, Decision, LeaseLength, Place, Settlement};

/// The longest time without looking, whatever hints come or do not come.
const POLL: Duration = Duration::from_millis(500);
/// How often a claim that finds enough looks for leases that ran out.
const RECLAIM: Duration = Duration::from_millis(250);

/// Claims, and waits as long as the request says. If the caller goes away before it gets the tasks, they are given back.
pub(super) async fn claim(store: &PgStore, at: &Place, queue: &str, request: ClaimRequest) -> Result<Vec<ClaimedTask>> {
    let (alarm, (answer, answered)) = (store.alarm(request.wait), oneshot::channel());
    let (own, at, queue) = (store.clone(), at.clone(), queue.to_owned());
    store.0.runtime.spawn(wait(own, at, queue, request, alarm, answer));
    let gone = |error| Error::new(ErrorKind::UnknownOutcome, "the runtime of the database has ended").caused_by(error);
    Ok(answered.await.map_err(gone)??.take())
}

async fn wait(
    store: PgStore,
    at: Place,
    queue: String,
    request: ClaimRequest,
    alarm: Alarm,
    mut answer: oneshot::Sender<Result<Handed>>,
) {
    let verb = Claim {
        at: at.clone(),
        queue: queue.clone(),
        owner: request.owner,
        lease: request.lease,
        max: i32::try_from(request.max).unwrap_or(i32::MAX),
        names: request.names,
        mark: store.0.hints.next_mark(),
    };
    let target = Target::Queue(queue.clone());
    while !answer.is_closed() {
        let hint = store.0.hints.of(Topic::ready(&at, &queue));
        let pause = match store.attempts(&at, &target, &verb).await {
            Ok(Claimed { tasks, next }) if tasks.is_empty() && !alarm.is_over() => {
                next.map_or(POLL, |due| due.saturating_since(store.now()).clamp(Duration::from_millis(1), POLL))
            }
            claimed => {
                if claimed.as_ref().is_err_and(|error| error.kind() == ErrorKind::UnknownOutcome) {
                    tokio::spawn(give_back(
                        store.clone(),
                        at.clone(),
                        GiveBack { queue: verb.queue, at: verb.at, owner: verb.owner, mark: verb.mark },
                    ));
                }
                // Where nobody takes it, it is dropped, and its tasks are given back.
                drop(answer.send(claimed.map(|claimed| Handed { tasks: claimed.tasks, at, queue, store })));
                return;
            }
        };
        tokio::select! {
            () = alarm.wait(hint, pause) => {}
            () = answer.closed() => {}
        }
    }
}

/// How often what an unknown claim may have taken is looked for, with so long a pause before the first time, twice as long before the next.
const LOOKS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(50);

/// Gives back what a claim took whose answer was lost. If that does not succeed, the leases run out.
async fn give_back(store: PgStore, at: Place, verb: GiveBack) {
    let target = Target::Queue(verb.queue.clone());
    for look in 0..LOOKS {
        tokio::time::sleep(PAUSE * 2_u32.pow(look)).await;
        // Found nothing: perhaps the server is still about to commit.
        if matches!(store.attempts(&at, &target, &verb).await, Ok(found) if found > 0) {
            return;
        }
    }
}

struct GiveBack {
    at: Place,
    queue: String,
    owner: Arc<str>,
    mark: i16,
}

impl Verb for GiveBack {
    type Answer = i64;

    fn gives_back(&self) -> bool {
        true
    }

    fn touches(&self) -> Vec<Topic> {
        vec![Topic::ready(&self.at, &self.queue)]
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<i64, Fault> {
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else { return Ok(0) };
        let found = sqlx::query_scalar(&store.sql("select aedb.give_back($1, $2, $3, $4)"))
            .bind(store.test_now())
            .bind(queue)
            .bind(&*self.owner)
            .bind(self.mark)
            .fetch_one(conn)
            .await?;
        Ok(found)
    }
}

/// Claimed tasks on their way to whoever asked for them.
struct Handed {
    tasks: Vec<ClaimedTask>,
    at: Place,
    queue: String,
    store: PgStore,
}

impl Handed {
    fn take(mut self) -> Vec<ClaimedTask> {
        std::mem::take(&mut self.tasks)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let items = self.tasks.iter().map(|task| Settlement::new(task, Decision::Release)).collect();
        let (store, at, queue) = (self.store.clone(), self.at.clone(), self.queue.clone());
        self.store.0.runtime.spawn(async move {
            let verb = Settle { at: at.clone(), queue: queue.clone(), items };
            // If it fails, the leases run out by themselves.
            drop(store.attempts(&at, &Target::Queue(queue), &verb).await);
        });
    }
}

struct Claim {
    at: Place,
    queue: String,
    owner: Arc<str>,
    lease: LeaseLength,
    max: i32,
    names: Names,
    mark: i16,
}

struct Claimed {
    tasks: Vec<ClaimedTask>,
    next: Option<crate::time::Timestamp>,
}

impl Verb for Claim {
    type Answer = Claimed;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Claimed, Fault> {
        let Some(queue) = store.known_queue(conn, &self.at, &self.queue).await? else {
            return Ok(Claimed { tasks: Vec::new(), next: None });
        };
        let reclaims = store.0.hints.is_time_to_reclaim(queue, RECLAIM) || store.test_now().is_some();
        let mut tasks = self.once(store, conn, queue, reclaims).await?;
        if tasks.is_empty() && !reclaims {
            tasks = self.once(store, conn, queue, true).await?;
        }
        let mut next = None;
        if tasks.is_empty() && self.max > 0 {
            let due: Option<i64> =
                sqlx::query_scalar(&store.sql("select aedb.next_due($1)")).bind(queue).fetch_one(conn).await?;
            next = due.map(number::instant);
        }
        Ok(Claimed { tasks, next })
    }
}

impl Claim {
    async fn once(
        &self,
        store: &PgStore,
        conn: &mut PgConnection,
        queue: i32,
        reclaims: bool,
    ) -> Result<Vec<ClaimedTask>, Fault> {
        // A clock of the tests stands; then nothing is found "in a second".
        let floor = if store.test_now().is_some() { None } else { store.0.hints.floor(queue, &self.names) };
        let names: Option<Vec<&str>> = self.names.as_ref().map(|names| names.iter().map(|name| &**name).collect());
        let rows = sqlx::query(&store.sql("select * from aedb.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"))
            .bind(store.test_now())
            .bind(queue)
            .bind(&*self.owner)
            .bind(number::length(self.lease.length()))
            .bind(self.max)
            .bind(names)
            .bind(reclaims)
            .bind(floor.map(|(rank, _)| rank))
            .bind(floor.map(|(_, id)| id))
            .bind(self.mark)
            .fetch_all(&mut *conn)
            .await?;
        let is_full = i32::try_from(rows.len()).is_ok_and(|found| found >= self.max);
        let last =
            rows.last().filter(|_| is_full).map(|row| Ok::<_, Fault>((row.try_get("rank")?, row.try_get("id")?)));
        store.0.hints.set_floor(queue, &self.names, floor, last.transpose()?);
        let queue_name: Arc<str> = self.queue.as_str().into();
        let (mut tasks, mut damaged) = (Vec::with_capacity(rows.len()), Vec::new());
        let mut last: Option<Arc<str>> = None;
        for row in rows {
            let name: &str = row.try_get("name")?;
            // A batch mostly has few names.
            let name = match &last {
                Some(known) if **known == *name => Arc::clone(known),
                _ => Arc::from(name),
            };
            last = Some(Arc::clone(&name));
            let id: i64 = row.try_get("id")?;
            let Some(payload) = row.try_get::<Option<&str>, _>("payload")? else {
                damaged.push(id);
                continue;
            };
            let policy: Option<Vec<i64>> = row.try_get("policy")?;
            let budget = |at: usize, usual: i64| {
                let given = policy.as_ref().and_then(|policy| policy.get(at)).copied().unwrap_or(usual);
                u32::try_from(given).unwrap_or(u32::MAX)
            };
            tasks.push(ClaimedTask {
                id: TaskId::from_u64(number::from_sql(id)),
                queue: Arc::clone(&queue_name),
                name,
                payload: Json::trusted(payload),
                progress: row.try_get::<Option<&str>, _>("progress")?.map(Json::trusted),
                counters: row::counters(&row)?,
                token: FencingToken::from_u64(number::from_sql(row.try_get("token")?)),
                deadline: number::instant(row.try_get("deadline")?),
                priority: number::priority(row.try_get("rank")?),
                enqueued: number::instant(row.try_get("enqueued")?),
                metadata: row::metadata(row.try_get("metadata")?),
                max_attempts: budget(0, 20),
                max_lost_leases: budget(1, 10),
            });
        }
        for id in damaged {
            sqlx::query(&store.sql("select aedb.set_aside($1, $2)")).bind(queue).bind(id).execute(&mut *conn).await?;
        }
        Ok(tasks)
    }
}
