//! Other sessions in the way: keys that others are about to take, batches in opposite orders, and what holds old rows.

use std::time::Duration;

use aedb_queue::{Completion, Db, Decision, ErrorKind, Settlement};
use aedb_tests::server::address;
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

#[test]
fn enqueues_that_share_a_commit_are_answered_each_for_itself() {
    on_a_schema(async |schema| {
        let builder = Db::builder().schema(&schema.name).connections(2).gather_enqueues();
        let db = builder.connect(&address()).await.unwrap();
        let transactions = async || {
            let text = format!("select count(distinct xmin::text) from {}.ready", schema.name);
            sqlx::query_scalar::<_, i64>(&text).fetch_one(&mut connection().await).await.unwrap()
        };
        let calls = (0..300_u64).map(|n| {
            let queue = db.queue(if n % 2 == 0 { "even" } else { "odd" }).unwrap();
            async move { queue.enqueue(task(n).idempotency_key(format!("{}", n / 4))).await.unwrap() }
        });
        let sent = futures::future::join_all(calls).await;
        assert_eq!(sent.iter().filter(|sent| !sent.deduplicated).count(), 150, "each queue has each key once");
        for (n, sent) in sent.iter().enumerate() {
            let first = n / 4 * 4 + n % 2;
            let record =
                db.queue(if n % 2 == 0 { "even" } else { "odd" }).unwrap().get(sent.id).await.unwrap().unwrap();
            let payload: u64 = record.payload.to().unwrap();
            assert!(payload == first as u64 || payload == first as u64 + 2, "{n}: {payload}");
        }
        assert!(transactions().await < 50, "300 calls shared {} commits", transactions().await);
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

#[test]
fn a_claim_that_begins_behind_what_is_gone_finds_higher_priorities_and_what_came_back() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("q").unwrap();
        queue.enqueue_batch((0..100).map(task).collect()).await.unwrap();
        let first = claim(&queue, 10).await;
        assert_eq!(claim(&queue, 10).await[0].payload.to::<u64>().unwrap(), 10);
        let urgent = queue.enqueue(task(500).priority(9)).await.unwrap().id;
        let claimed = claim(&queue, 2).await;
        assert_eq!((claimed[0].id, claimed[1].payload.to::<u64>().unwrap()), (urgent, 20));
        assert!(queue.release(&first[3]).await.unwrap().is_applied());
        assert_eq!(claim(&queue, 1).await[0].id, first[3].id, "it has its old place in line");
        // What another process gave back is found at once when too little is, and within a second or so otherwise.
        let other = impatient(schema).await.queue("q").unwrap();
        assert_eq!(claim(&queue, 1).await[0].payload.to::<u64>().unwrap(), 21);
        assert!(other.release(&first[5]).await.unwrap().is_applied());
        assert!(claim(&queue, 200).await.iter().any(|claimed| claimed.id == first[5].id));
        queue.enqueue_batch((600..700).map(task).collect()).await.unwrap();
        assert_eq!(claim(&queue, 1).await.len(), 1);
        assert!(other.release(&first[6]).await.unwrap().is_applied());
        let found = async {
            while claim(&queue, 1).await[0].id != first[6].id {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(10), found).await.unwrap();
    });
}

#[test]
fn ten_thousand_are_beaten_and_settled_in_time_though_the_server_thinks_that_there_are_none() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("q").unwrap();
        queue.enqueue(task(0)).await.unwrap();
        let gone = claim(&queue, 1).await;
        assert!(queue.complete(&gone[0], Completion::new()).await.unwrap().is_applied());
        let analyze = format!("vacuum analyze {}.running", schema.name);
        connection().await.execute(analyze.as_str()).await.unwrap();
        // Now plans are made that a server may keep.
        for _ in 0..3 {
            assert!(!queue.complete(&gone[0], Completion::new()).await.unwrap().is_applied());
            let lost = queue.heartbeat(&gone[0], aedb_queue::LeaseLength::secs(30), None).await.unwrap();
            assert!(matches!(lost, aedb_queue::HeartbeatOutcome::LeaseLost(_)));
        }
        queue.enqueue_batch((0..10_000).map(task).collect()).await.unwrap();
        let claims = claim(&queue, 10_000).await;
        let beat = |claimed| aedb_queue::Heartbeat::new(claimed, aedb_queue::LeaseLength::secs(300));
        let beats = timeout(Duration::from_secs(20), queue.heartbeat_batch(claims.iter().map(beat).collect())).await;
        assert_eq!(beats.unwrap().unwrap().len(), 10_000);
        let done = claims.iter().map(|claim| Settlement::new(claim, Decision::Complete(Completion::new())));
        let settled = timeout(Duration::from_secs(20), queue.settle(done.collect())).await.unwrap().unwrap();
        assert!(settled.into_iter().all(|answer| answer.unwrap().is_applied()));
    });
}
