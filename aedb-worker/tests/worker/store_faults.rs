//! Stores that are away, lose answers, or refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aedb_queue::StateKind;
use aedb_worker::testing::{Fault, Faults, Verb};
use aedb_worker::{Outcome, TaskContext, WorkerState};

use crate::{on, one_task, task, until};

#[tokio::test]
async fn c26_c27_a_store_that_is_away_is_not_called_in_a_hot_loop_and_work_goes_on_when_it_is_back() {
    let (db, queue, _) = one_task().await;
    let (faults, calls, away) = (Faults::new(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
    let (count, gone) = (Arc::clone(&calls), Arc::clone(&away));
    faults.plan(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        gone.load(Ordering::SeqCst).then_some(Fault::Fail)
    });
    let worker = on(&faults.on(&db)).handler("n", |_: u32, _| async { Ok(Outcome::done(())) }).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let health = handle.health();
    assert!(!health.ready && health.state == WorkerState::Failing, "{health:?}");
    let tries = calls.load(Ordering::SeqCst);
    assert!((3..=12).contains(&tries), "{tries} calls in 3 s");
    away.store(false, Ordering::SeqCst);
    until(|| async { queue.stats().await.unwrap().done == 1 }).await;
    assert!(handle.health().ready);
    handle.shutdown();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_outcome_is_not_lost_to_a_settle_that_fails_or_whose_answer_is_lost() {
    for fault in [Fault::Fail, Fault::LoseAnswer] {
        let (db, queue, id) = one_task().await;
        let (faults, settles) = (Faults::new(), AtomicU64::new(0));
        faults.plan(move |call| {
            (call.verb == Verb::Settle && settles.fetch_add(1, Ordering::SeqCst) < 3).then(|| fault.clone())
        });
        let handler = |_: u32, cx: TaskContext| async move { Ok(Outcome::done(cx.deliveries()).put("k", "v")) };
        on(&faults.on(&db)).handler("n", handler).build().unwrap().drain().await.unwrap();
        let record = queue.get(id).await.unwrap().unwrap();
        assert_eq!(
            (record.state.kind(), record.counters.deliveries, record.counters.lost_leases),
            (StateKind::Done, 1, 0)
        );
        assert!(db.default_scope().kv().get("k").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn an_outcome_that_the_queue_refuses_is_a_failure_and_does_not_hold_up_its_neighbours() {
    let (db, queue, id) = one_task().await;
    queue.enqueue_batch(vec![task("good"); 50]).await.unwrap();
    let huge = "x".repeat(300 << 10);
    let refused = move |_: u32, _: TaskContext| {
        let huge = huge.clone();
        async move { Ok(Outcome::done(huge)) }
    };
    let conflict = |_: u32, cx: TaskContext| async move {
        cx.effects().assert_value("absent", "value").put("k", "v");
        Ok(Outcome::done(()))
    };
    let second = queue.enqueue(task("conflict")).await.unwrap().id;
    let worker = on(&db)
        .handler("n", refused)
        .handler("conflict", conflict)
        .handler("good", |_: u32, _| async { Ok(Outcome::done(())) })
        .concurrency(100);
    worker.build().unwrap().drain().await.unwrap();
    for (id, words) in [(id, "result bytes"), (second, "absent")] {
        let record = queue.get(id).await.unwrap().unwrap();
        assert_eq!((record.state.kind(), record.failures.len()), (StateKind::Dead, 2));
        assert!(record.failures[0].error.contains(words), "{}", record.failures[0].error);
    }
    assert_eq!(queue.stats().await.unwrap().done, 50);
    assert!(db.default_scope().kv().get("k").await.unwrap().is_none());
}
