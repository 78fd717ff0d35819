//! Other sessions in the way: keys that others are about to take, batches in opposite orders, and what holds old rows.

use std::time::Duration;

use aedb_queue::{Completion, Decision, ErrorKind, Settlement};
use aedb_tests::{Dice, task};
use sqlx::{Connection, Executor};
use tokio::time::{sleep, timeout};

use super::{claim, connection, impatient, on_a_schema};

#[test]
fn a_key_that_an_open_transaction_has_taken_is_waited_for_and_free_after_its_rollback() {
    on_a_schema(async |schema| {
        let (store, queue) = (&schema.store, schema.store.db().queue("q").unwrap());
        let mut conn = connection().await;
        for commits in [false, true] {
            let mut txn = conn.begin().await.unwrap();
            let key = format!("k{commits}");
            let first = store.enqueue_in(&mut txn, &queue, vec![task(1).idempotency_key(key.as_str())]).await.unwrap();
            let mut second = std::pin::pin!(queue.enqueue(task(1).idempotency_key(key.as_str())));
            assert!(timeout(Duration::from_millis(200), &mut second).await.is_err(), "nobody can know yet");
            if commits {
                txn.commit().await.unwrap()
            } else {
                txn.rollback().await.unwrap()
            }
            let second = second.await.unwrap();
            assert_eq!((second.deduplicated, second.id == first[0].id), (commits, commits));
        }
    });
}

#[test]
fn a_key_that_an_open_transaction_holds_for_long_is_an_error_that_says_nothing_was_applied() {
    on_a_schema(async |schema| {
        let (store, queue) = (&schema.store, impatient(schema).await.queue("q").unwrap());
        let mut conn = connection().await;
        let mut txn = conn.begin().await.unwrap();
        store.enqueue_in(&mut txn, &queue, vec![task(1).idempotency_key("k")]).await.unwrap();
        let waited = timeout(Duration::from_secs(20), queue.enqueue(task(1).idempotency_key("k"))).await.unwrap();
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::Unavailable);
        txn.rollback().await.unwrap();
        assert!(!queue.enqueue(task(1).idempotency_key("k")).await.unwrap().deduplicated);
    });
}

#[test]
fn c49_fifty_that_send_one_key_at_once_get_one_task_and_no_error() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("q").unwrap();
        for round in 0..10 {
            let key = format!("k{round}");
            let sent =
                futures::future::join_all((0..50).map(|_| queue.enqueue(task(1).idempotency_key(key.as_str())))).await;
            let sent: Vec<_> = sent.into_iter().map(Result::unwrap).collect();
            assert_eq!(sent.iter().filter(|sent| !sent.deduplicated).count(), 1);
            assert!(sent.iter().all(|one| one.id == sent[0].id));
        }
    });
}

/// How often the server had to undo somebody because two waited for one another.
async fn deadlocks() -> i64 {
    let text = "select deadlocks from pg_stat_database where datname = current_database()";
    sqlx::query_scalar(text).fetch_one(&mut connection().await).await.unwrap()
}

#[test]
fn batches_of_the_same_keys_and_tasks_in_any_order_do_not_stop_one_another() {
    on_a_schema(async |schema| {
        let (store, before) = (&schema.store, deadlocks().await);
        let senders = (0..6).map(|sender| {
            let queue = store.db().queue("q").unwrap();
            async move {
                let mut dice = Dice::new(sender);
                for round in 0..15 {
                    let mut keys: Vec<u64> = (0..40).collect();
                    dice.shuffle(&mut keys);
                    let key = |key: &u64| task(*key).idempotency_key(format!("{round}:{key}"));
                    queue.enqueue_batch(keys.iter().map(key).collect()).await.unwrap();
                }
            }
        });
        futures::future::join_all(senders).await;
        let queue = store.db().queue("q").unwrap();
        let claims = claim(&queue, 1_000).await;
        assert_eq!(claims.len(), 15 * 40);
        // Everybody settles everything, in an order and with verdicts of his own: each is settled by exactly one.
        let settlers = (0..6).map(|settler| {
            let (queue, claims) = (queue.clone(), &claims);
            async move {
                let (mut dice, mut applied) = (Dice::new(settler + 9), 0);
                let mut order: Vec<usize> = (0..claims.len()).collect();
                dice.shuffle(&mut order);
                for chunk in order.chunks(200) {
                    let verdict = |at: &usize| match dice.roll(3) {
                        0 => Settlement::new(&claims[*at], Decision::Complete(Completion::new())),
                        1 => Settlement::new(&claims[*at], Decision::Release),
                        _ => Settlement::new(&claims[*at], Decision::Discard { reason: "no".into() }),
                    };
                    let answers = queue.settle(chunk.iter().map(verdict).collect()).await.unwrap();
                    applied += answers.into_iter().filter(|answer| answer.as_ref().unwrap().is_applied()).count();
                }
                applied
            }
        });
        let applied: usize = futures::future::join_all(settlers).await.into_iter().sum();
        assert_eq!(applied, claims.len());
        // Sessions count what happened to them when they end.
        store.close().await;
        sleep(Duration::from_millis(300)).await;
        let after = deadlocks().await;
        assert_eq!(after - before, 0, "the server had to undo nobody");
    });
}

#[test]
fn an_idle_transaction_that_pins_old_rows_is_named_and_nothing_is_lost() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("q").unwrap();
        let mut conn = connection().await;
        let mut txn = conn.begin().await.unwrap();
        txn.execute("set transaction isolation level repeatable read; select 1").await.unwrap();
        txn.execute(format!("select count(*) from {}.ready", schema.name).as_str()).await.unwrap();
        for round in 0..20 {
            queue.enqueue_batch((0..100).map(task).collect()).await.unwrap();
            let claims = claim(&queue, 100).await;
            assert_eq!(claims.len(), 100, "in round {round}");
            let done = claims.iter().map(|claim| Settlement::new(claim, Decision::Complete(Completion::new())));
            queue.settle(done.collect()).await.unwrap();
        }
        sleep(Duration::from_millis(10)).await;
        let pinned: Vec<String> =
            sqlx::query_scalar(&format!("select state from {}.pinned where age >= interval '0'", schema.name))
                .fetch_all(&mut connection().await)
                .await
                .unwrap();
        assert!(pinned.contains(&"idle in transaction".to_owned()), "{pinned:?}");
        txn.rollback().await.unwrap();
        assert_eq!(queue.stats().await.unwrap().done, 2_000);
    });
}
