//! Workers on a server: handlers that settle in their own SQL transaction, and heartbeats beside them.

use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{Backoff, Completion, HeartbeatOutcome, LeaseLength, NewTask, PgStore, StateKind};
use aedb_tests::server::Schema;
use aedb_tests::task;
use aedb_worker::{Outcome, State, TaskContext, TaskError, Worker, tasks};
use sqlx::{Connection, Executor};
use tokio::time::{sleep, timeout};

use super::{claim, connection, on_a_schema};

struct Shop {
    store: PgStore,
    schema: String,
}

/// Charges an order in the application's own table; the first attempt of an odd one rolls back after it has settled.
#[aedb_worker::task(queue = "shop", retry(max = 5, base = "0s"))]
async fn charge(order: i64, cx: TaskContext, State(shop): State<Shop>) -> Result<Outcome<i64>, TaskError> {
    let queue = shop.store.db().queue("shop")?;
    let mut conn = connection().await;
    let mut txn = conn.begin().await.map_err(TaskError::new)?;
    let paid = format!("insert into {}.paid values ({order})", shop.schema);
    txn.execute(paid.as_str()).await.map_err(TaskError::new)?;
    cx.effects().put(format!("paid:{order}"), "yes");
    let follow_up = ("mail", NewTask::new("receipt", &order)?);
    shop.store.settle_in(&mut txn, &queue, vec![cx.settlement(Outcome::done(order).then(follow_up))?]).await?;
    if order % 2 == 1 && cx.attempt() == 1 {
        txn.rollback().await.map_err(TaskError::new)?;
        return Err(TaskError::new("rolled back"));
    }
    txn.commit().await.map_err(TaskError::new)?;
    sleep(Duration::from_millis(5)).await;
    Ok(Outcome::done(order))
}

async fn rows(schema: &Schema) -> i64 {
    let text = format!("select count(*) from {}.paid", schema.name);
    sqlx::query_scalar(&text).fetch_one(&mut connection().await).await.unwrap()
}

#[test]
fn a_handler_settles_its_task_in_its_own_transaction_with_its_own_rows_exactly_once() {
    on_a_schema(async |schema| {
        let db = schema.store.db();
        let create = format!("create table {}.paid (id bigint primary key)", schema.name);
        connection().await.execute(create.as_str()).await.unwrap();
        let queue = db.queue("shop").unwrap();
        for order in 0..20 {
            charge::enqueue(&db, order).await.unwrap();
        }
        let shop = Shop { store: schema.store.clone(), schema: schema.name.clone() };
        let worker = Worker::builder(&db).queue("shop").tasks(tasks![charge]).state(shop).build().unwrap();
        worker.drain().await.unwrap();
        let stats = queue.stats().await.unwrap();
        assert_eq!((stats.done, stats.ready, stats.in_flight, stats.dead), (20, 0, 0, 0));
        assert_eq!((rows(schema).await, db.queue("mail").unwrap().stats().await.unwrap().ready), (20, 20));
        for order in 0..20 {
            assert!(db.default_scope().kv().get(format!("paid:{order}")).await.unwrap().is_some());
        }
    });
}

#[test]
fn heartbeats_do_not_wait_for_a_task_that_a_callers_transaction_is_settling() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("q").unwrap();
        queue.enqueue_batch(vec![task(1), task(2)]).await.unwrap();
        let claims = claim(&queue, 2).await;
        let mut conn = connection().await;
        let mut txn = conn.begin().await.unwrap();
        let done = aedb_queue::Decision::Complete(Completion::new());
        let item = aedb_queue::Settlement::new(&claims[0], done);
        schema.store.settle_in(&mut txn, &queue, vec![item]).await.unwrap();
        let beat = |at: usize| aedb_queue::Heartbeat::new(&claims[at], LeaseLength::secs(60));
        let beats =
            timeout(Duration::from_secs(5), queue.heartbeat_batch(vec![beat(0), beat(1)])).await.unwrap().unwrap();
        assert_eq!(beats[0], HeartbeatOutcome::Extended(claims[0].deadline), "it is held, and as it was");
        assert!(matches!(beats[1], HeartbeatOutcome::Extended(until) if until > claims[1].deadline));
        txn.commit().await.unwrap();
        let beats = queue.heartbeat_batch(vec![beat(0), beat(1)]).await.unwrap();
        assert!(
            matches!(beats[0], HeartbeatOutcome::LeaseLost(_)) && matches!(beats[1], HeartbeatOutcome::Extended(_))
        );
    });
}

#[test]
fn c12_a_handler_that_takes_long_is_claimed_once_and_beats_all_the_while() {
    on_a_schema(async |schema| {
        let db = schema.store.db();
        let queue = db.queue("q").unwrap();
        let id = queue.enqueue(task(1)).await.unwrap().id;
        let calls = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let slow = move |_: u64, _: TaskContext| {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async {
                sleep(Duration::from_secs(6)).await;
                Ok(Outcome::done(()))
            }
        };
        let worker = || {
            let slow = slow.clone();
            Worker::builder(&db).queue("q").handler("n", slow).lease(Duration::from_secs(1)).build().unwrap()
        };
        let (one, other) = (worker(), worker());
        let (first, second) = tokio::join!(one.drain(), other.drain());
        first.unwrap();
        second.unwrap();
        let record = queue.get(id).await.unwrap().unwrap();
        assert_eq!((record.state.kind(), record.token.as_u64()), (StateKind::Done, 1));
        assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 1);
    });
}

#[test]
fn a_task_that_is_given_a_backoff_on_a_server_waits_by_the_servers_clock() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("q").unwrap();
        let backoff = Backoff::fixed(Duration::from_millis(400));
        queue.enqueue(task(1).backoff(backoff)).await.unwrap();
        let claimed = claim(&queue, 1).await;
        assert!(queue.fail(&claimed[0], "no").await.unwrap().is_applied());
        assert!(claim(&queue, 1).await.is_empty());
        let again = queue.claim(super::request(1).wait(Duration::from_secs(10))).await.unwrap();
        assert_eq!(again[0].token.as_u64(), 2);
    });
}
