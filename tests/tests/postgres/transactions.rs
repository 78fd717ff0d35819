//! Enqueue, settle and guard inside of the application's own transaction.

use std::time::Duration;

use aedb_queue::{
    Completion, Decision, Effects, ErrorKind, FencedCommit, LeaseLength, LeaseLoss, LeaseOutcome, NewTask, Settlement,
    StateKind,
};
use aedb_tests::task;
use sqlx::{Connection, Executor};
use tokio::time::{sleep, timeout};

use super::{claim, connection, impatient, on_a_schema, request};

#[test]
fn a_task_of_the_callers_transaction_exists_if_and_only_if_that_commits() {
    on_a_schema(async |schema| {
        let (store, queue) = (&schema.store, schema.store.db().queue("q").unwrap());
        let mut conn = connection().await;
        conn.execute(format!("create table {}.orders (id int)", schema.name).as_str()).await.unwrap();
        let order = format!("insert into {}.orders values (1)", schema.name);

        let mut txn = conn.begin().await.unwrap();
        txn.execute(order.as_str()).await.unwrap();
        store.enqueue_in(&mut txn, &queue, vec![task(1).idempotency_key("k"), task(2)]).await.unwrap();
        assert!(claim(&queue, 9).await.is_empty(), "it is not committed yet");
        txn.rollback().await.unwrap();
        assert!(claim(&queue, 9).await.is_empty());
        assert!(!queue.enqueue(task(3).idempotency_key("k")).await.unwrap().deduplicated, "the key went with it");

        let mut txn = conn.begin().await.unwrap();
        txn.execute(order.as_str()).await.unwrap();
        let new = store.enqueue_in(&mut txn, &queue, vec![task(4).idempotency_key("k2")]).await.unwrap();
        txn.commit().await.unwrap();
        store.wake(&queue);
        let claimed = claim(&queue, 9).await;
        assert_eq!((claimed.len(), claimed[1].id), (2, new[0].id));
    });
}

#[test]
fn what_the_callers_transaction_settles_is_settled_if_and_only_if_that_commits() {
    on_a_schema(async |schema| {
        let (store, queue) = (&schema.store, schema.store.db().queue("q").unwrap());
        let kv = schema.store.db().default_scope().kv();
        queue.enqueue_batch(vec![task(1), task(2)]).await.unwrap();
        let claims = claim(&queue, 2).await;
        let done = |at: usize| {
            let effects = Effects::new().put(format!("done:{at}"), "yes").enqueue("side", task(7));
            Settlement::new(&claims[at], Decision::Complete(Completion::new().effects(effects)))
        };
        let mut conn = connection().await;
        let mut txn = conn.begin().await.unwrap();
        store.settle_in(&mut txn, &queue, vec![done(0), done(1)]).await.unwrap();
        txn.rollback().await.unwrap();
        assert_eq!(queue.stats().await.unwrap().in_flight, 2, "nothing of it was committed");

        let mut txn = conn.begin().await.unwrap();
        store.settle_in(&mut txn, &queue, vec![done(0)]).await.unwrap();
        txn.commit().await.unwrap();
        assert!(kv.get("done:0").await.unwrap().is_some());
        assert_eq!(store.db().queue("side").unwrap().stats().await.unwrap().ready, 1);
        let again = queue.complete(&claims[0], Completion::new()).await.unwrap();
        assert_eq!(again, FencedCommit::LeaseLost(LeaseLoss::AlreadySettled), "asking tells that it was applied");
    });
}

#[test]
fn a_lost_lease_is_an_error_in_the_callers_transaction_and_the_rollback_leaves_nothing() {
    on_a_schema(async |schema| {
        let (store, queue) = (&schema.store, schema.store.db().queue("q").unwrap());
        let kv = schema.store.db().default_scope().kv();
        queue.enqueue_batch(vec![task(1), task(2)]).await.unwrap();
        let claims = claim(&queue, 2).await;
        let _ = queue.release(&claims[1]).await.unwrap();
        let current = claim(&queue, 1).await;
        let mut conn = connection().await;
        let mut txn = conn.begin().await.unwrap();
        let effects = || Effects::new().put("done", "yes").enqueue("side", task(7));
        let items: Vec<_> = claims
            .iter()
            .map(|claim| Settlement::new(claim, Decision::Complete(Completion::new().effects(effects()))))
            .collect();
        let lost = store.settle_in(&mut txn, &queue, items).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::LeaseLost);
        txn.rollback().await.unwrap();
        assert!(kv.get("done").await.unwrap().is_none());
        assert_eq!(store.db().queue("side").unwrap().stats().await.unwrap().ready, 0);
        for claim in [&claims[0], &current[0]] {
            assert!(queue.complete(claim, Completion::new()).await.unwrap().is_applied(), "both are held as before");
        }
    });
}

#[test]
fn a_takeover_waits_for_the_transaction_that_guards_the_lease_and_gets_the_next_token() {
    on_a_schema(async |schema| {
        let (store, scope) = (&schema.store, schema.store.db().default_scope());
        let lease = scope.lease("keeper").unwrap();
        let LeaseOutcome::Acquired(held) = lease.acquire("a", LeaseLength::secs(1)).await.unwrap() else { panic!() };
        let mut conn = connection().await;
        let mut txn = conn.begin().await.unwrap();
        store.lease_guard_in(&mut txn, &scope, &held).await.unwrap();
        sleep(Duration::from_millis(1_100)).await;
        let other = scope.lease("keeper").unwrap();
        let mut takeover = std::pin::pin!(other.acquire("b", LeaseLength::secs(30)));
        assert!(timeout(Duration::from_millis(300), &mut takeover).await.is_err(), "it waits");
        txn.commit().await.unwrap();
        let LeaseOutcome::Acquired(taken) = takeover.await.unwrap() else { panic!() };
        assert!(taken.token > held.token);
        let mut txn = conn.begin().await.unwrap();
        let lost = store.lease_guard_in(&mut txn, &scope, &held).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::LeaseLost);
    });
}

#[test]
fn a_takeover_that_waits_too_long_for_a_callers_transaction_is_told_so_and_changes_nothing() {
    on_a_schema(async |schema| {
        let (store, scope) = (&schema.store, impatient(schema).await.default_scope());
        let lease = scope.lease("keeper").unwrap();
        let LeaseOutcome::Acquired(held) = lease.acquire("a", LeaseLength::secs(1)).await.unwrap() else { panic!() };
        let mut conn = connection().await;
        let mut txn = conn.begin().await.unwrap();
        store.lease_guard_in(&mut txn, &scope, &held).await.unwrap();
        sleep(Duration::from_millis(1_100)).await;
        let told = timeout(Duration::from_secs(20), lease.acquire("b", LeaseLength::secs(30))).await.unwrap();
        assert_eq!(told.unwrap_err().kind(), ErrorKind::Unavailable);
        drop(txn);
        assert_eq!(lease.status().await.unwrap().unwrap().token, held.token);
    });
}

#[test]
fn c07_a_late_commit_with_lower_ids_is_found_and_holds_nobody_up() {
    on_a_schema(async |schema| {
        // The first tasks ever, of a queue and a scope that have no row yet.
        let (store, scope) = (&schema.store, schema.store.db().scope("new", "scope").unwrap());
        let (queue, mut conn) = (scope.queue("q").unwrap(), connection().await);
        let mut txn = conn.begin().await.unwrap();
        let late = store.enqueue_in(&mut txn, &queue, vec![task(1)]).await.unwrap();
        let early = timeout(Duration::from_secs(5), queue.enqueue(task(2))).await.expect("nobody waits").unwrap();
        assert!(late[0].id < early.id);
        assert_eq!(claim(&queue, 9).await[0].id, early.id);
        txn.commit().await.unwrap();
        let found = claim(&queue, 9).await;
        assert_eq!((found.len(), found[0].id), (1, late[0].id));
    });
}

#[test]
fn c07_what_many_writers_commit_late_is_claimed_once_without_a_gap() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 60;
    on_a_schema(async |schema| {
        let (store, queue) = (&schema.store, schema.store.db().queue("q").unwrap());
        let writers = (0..WRITERS).map(|writer| {
            let (store, queue) = (store.clone(), queue.clone());
            tokio::spawn(async move {
                let mut conn = connection().await;
                for n in 0..EACH {
                    let mut txn = conn.begin().await.unwrap();
                    let payload = vec![task(writer * EACH + n)];
                    store.enqueue_in(&mut txn, &queue, payload).await.unwrap();
                    sleep(Duration::from_millis((writer * 7 + n * 3) % 23)).await;
                    txn.commit().await.unwrap();
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < usize::try_from(WRITERS * EACH).unwrap() {
            for claim in queue.claim(request(50).wait(Duration::from_secs(5))).await.unwrap() {
                assert!(seen.insert(claim.payload.to::<u64>().unwrap()));
                assert!(queue.complete(&claim, Completion::new()).await.unwrap().is_applied());
            }
        }
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(claim(&queue, 9).await.is_empty());
    });
}

#[test]
fn one_connection_is_enough_for_a_worker_and_its_waits() {
    use aedb_queue::Db;
    use aedb_tests::server::address;
    on_a_schema(async |schema| {
        let db = Db::builder().schema(&schema.name).connections(1).connect(&address()).await.unwrap();
        let queue = db.queue("q").unwrap();
        let waiting = queue.claim(request(1).wait(Duration::from_secs(20)));
        let others = async {
            sleep(Duration::from_millis(50)).await;
            let id = queue.enqueue(NewTask::new("n", &1).unwrap()).await.unwrap().id;
            let all = futures::future::join_all((0..20).map(|_| queue.get(id))).await;
            assert!(all.into_iter().all(|record| record.unwrap().is_some()));
            id
        };
        let (claimed, id) = tokio::join!(waiting, others);
        assert_eq!(claimed.unwrap()[0].id, id);
        assert_eq!(queue.get(id).await.unwrap().unwrap().state.kind(), StateKind::InFlight);
    });
}

#[test]
fn after_commits_were_lost_an_operator_raises_the_floor_and_every_token_is_above_it() {
    on_a_schema(async |schema| {
        let (queue, lease) = (schema.store.db().queue("q").unwrap(), schema.store.db().lease("keeper").unwrap());
        queue.enqueue_batch(vec![task(1), task(2)]).await.unwrap();
        let before = claim(&queue, 1).await[0].token;
        let raise = "update S.setting set token_floor = S.clock()".replace("S.", &format!("{}.", schema.name));
        connection().await.execute(raise.as_str()).await.unwrap();
        let after = claim(&queue, 1).await[0].token;
        let LeaseOutcome::Acquired(held) = lease.acquire("a", LeaseLength::secs(30)).await.unwrap() else { panic!() };
        assert!(before.as_u64() == 1 && after.as_u64() > 1_000_000_000_000_000 && held.token > before);
        assert!(held.token.as_u64() > 1_000_000_000_000_000);
    });
}
