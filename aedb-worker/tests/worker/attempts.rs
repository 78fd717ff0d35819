//! What becomes of attempts: done, retried, dead, interrupted, lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aedb_queue::{ClaimRequest, Db, DeadReason, LeaseLength, ManualClock, StateKind, TaskState};
use aedb_worker::testing::{Faults, Verb};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker};
use tokio::sync::Notify;

use crate::{endless, on, task};

fn db() -> Db {
    crate::store::fresh(Db::builder())
}

#[tokio::test]
async fn a_handler_that_returns_completes_its_task_with_its_effects_and_follow_ups() {
    let db = db();
    let queue = db.queue("q").unwrap();
    let id = queue.enqueue(task("first")).await.unwrap().id;
    let first = |_: u32, _: TaskContext| async { Ok(Outcome::done(7).put("k", "v").then(("q", task("second")))) };
    let second =
        |_: u32, cx: TaskContext| async move { Ok(Outcome::done(()).put("second", cx.idempotency_key("step"))) };
    Worker::builder(&db)
        .queue("q")
        .handler("first", first)
        .handler("second", second)
        .build()
        .unwrap()
        .drain()
        .await
        .unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.result.unwrap().to::<u32>().unwrap()), (StateKind::Done, 7));
    let kv = db.default_scope().kv();
    assert!(kv.get("k").await.unwrap().is_some() && kv.get("second").await.unwrap().is_some());
}

#[tokio::test]
async fn c29_errors_and_panics_of_every_kind_are_failures_and_the_worker_goes_on() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    fn boom(payload: &str) -> Result<Outcome, TaskError> {
        match payload {
            "str" => panic!("boom"),
            "string" => panic!("{}", String::from("boom")),
            _ => std::panic::panic_any(7),
        }
    }
    let db = db();
    let queue = db.queue("q").unwrap();
    let names = ["error", "str", "string", "any", "drop", "early"];
    let mut ids = Vec::new();
    for name in names {
        ids.push(queue.enqueue(task(name)).await.unwrap().id);
    }
    let worker = Worker::builder(&db)
        .queue("q")
        .handler("error", |_: u32, _| async { Err::<Outcome, _>(TaskError::new("boom")) })
        .handler("str", |_: u32, _| async { boom("str") })
        .handler("string", |_: u32, _| async { boom("string") })
        .handler("any", |_: u32, _| async { boom("any") })
        .handler("drop", |_: u32, _| async {
            let _bomb = Bomb;
            Ok(Outcome::done(()))
        })
        .handler("early", |_: u32, _| -> std::future::Ready<Result<Outcome, TaskError>> {
            panic!("before the future")
        });
    worker.build().unwrap().drain().await.unwrap();
    for (id, name) in ids.into_iter().zip(names) {
        let record = queue.get(id).await.unwrap().unwrap();
        assert!(matches!(record.state, TaskState::Dead { reason: DeadReason::AttemptsSpent, .. }), "{name}");
        assert_eq!(record.failures.len(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_fatal_error_is_tried_once() {
    let db = db();
    let queue = db.queue("q").unwrap();
    let id = queue.enqueue(task("n")).await.unwrap().id;
    let fatal = |_: u32, _: TaskContext| async { Err::<Outcome, _>(TaskError::new("no such card").fatal()) };
    Worker::builder(&db).queue("q").handler("n", fatal).build().unwrap().drain().await.unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert!(matches!(record.state, TaskState::Dead { reason: DeadReason::Fatal, .. }));
    assert_eq!(&*record.failures[0].error, "no such card");
}

#[tokio::test]
async fn c61_a_checkpoint_survives_a_failure() {
    let db = db();
    db.queue("q").unwrap().enqueue(task("n")).await.unwrap();
    let steps = |_: u32, cx: TaskContext| async move {
        let done: Option<u32> = cx.progress()?;
        if done.is_none() {
            for step in 1..=100 {
                cx.checkpoint(&step).await?;
            }
            return Err(TaskError::new("after the last step"));
        }
        Ok(Outcome::done(()).put("seen", done.unwrap_or(0).to_string()))
    };
    Worker::builder(&db).queue("q").handler("n", steps).build().unwrap().drain().await.unwrap();
    assert_eq!(db.default_scope().kv().get("seen").await.unwrap().as_deref(), Some(b"100".as_slice()));
}

#[tokio::test]
async fn c43_a_shutdown_gives_unfinished_tasks_back_and_charges_nothing() {
    let db = db();
    let queue = db.queue("q").unwrap();
    let id = queue.enqueue(task("n")).await.unwrap().id;
    let started = Arc::new(Notify::new());
    let worker = Worker::builder(&db)
        .queue("q")
        .handler("n", endless(&started))
        .grace(Duration::from_millis(10))
        .build()
        .unwrap();
    worker.run_until(async move { started.notified().await }).await.unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!(record.state.kind(), StateKind::Ready);
    assert_eq!((record.counters.attempts, record.counters.failures, record.counters.lost_leases), (0, 0, 0));
    assert_eq!(record.counters.deliveries, 1);
}

#[tokio::test]
async fn c42_attempts_that_finish_within_the_grace_are_committed() {
    let db = db();
    let queue = db.queue("q").unwrap();
    queue.enqueue_batch(vec![task("n"); 100]).await.unwrap();
    let (started, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let (count, open) = (Arc::clone(&started), Arc::clone(&gate));
    let wait = move |_: u32, _: TaskContext| {
        let (count, open) = (Arc::clone(&count), Arc::clone(&open));
        async move {
            let opened = open.notified();
            count.fetch_add(1, Ordering::SeqCst);
            opened.await;
            Ok(Outcome::done(()))
        }
    };
    let worker = Worker::builder(&db).queue("q").handler("n", wait).concurrency(100).build().unwrap();
    let stop = async move {
        while started.load(Ordering::SeqCst) < 100 {
            tokio::task::yield_now().await;
        }
        gate.notify_waiters();
    };
    worker.run_until(stop).await.unwrap();
    assert_eq!(queue.stats().await.unwrap().done, 100);
}

#[tokio::test]
async fn tasks_of_unknown_names_are_left_alone() {
    let db = db();
    let queue = db.queue("q").unwrap();
    let other = queue.enqueue(task("other").priority(9)).await.unwrap().id;
    queue.enqueue(task("n")).await.unwrap();
    Worker::builder(&db)
        .queue("q")
        .handler("n", |_: u32, _| async { Ok(Outcome::done(())) })
        .build()
        .unwrap()
        .drain()
        .await
        .unwrap();
    let record = queue.get(other).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.counters.deliveries), (StateKind::Ready, 0));
}

#[tokio::test]
async fn a_cancelled_task_interrupts_its_handler_by_the_next_heartbeat() {
    let db = db();
    let queue = db.queue("q").unwrap();
    let id = queue.enqueue(task("n")).await.unwrap().id;
    let started = Arc::new(Notify::new());
    let worker =
        Worker::builder(&db).queue("q").handler("n", endless(&started)).lease(Duration::from_secs(1)).build().unwrap();
    let running = tokio::spawn(worker.drain());
    started.notified().await;
    assert!(queue.cancel(id).await.unwrap());
    running.await.unwrap().unwrap();
    assert_eq!(queue.get(id).await.unwrap().unwrap().state.kind(), StateKind::Cancelled);
}

#[tokio::test]
async fn c12_a_handler_of_twenty_leases_keeps_its_task() {
    let db = db();
    let queue = db.queue("q").unwrap();
    let id = queue.enqueue(task("n")).await.unwrap().id;
    let started = Arc::new(Notify::new());
    let (starting, gate) = (Arc::clone(&started), Arc::new(Notify::new()));
    let open = Arc::clone(&gate);
    let wait = move |_: u32, _: TaskContext| {
        let open = Arc::clone(&open);
        starting.notify_one();
        async move {
            open.notified().await;
            Ok(Outcome::done(()))
        }
    };
    let (faults, beats) = (Faults::new(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&beats);
    faults.plan(move |call| {
        count.fetch_add(u32::from(call.verb == Verb::Heartbeat), Ordering::SeqCst);
        None
    });
    let worker = on(&faults.on(&db)).handler("n", wait).lease(Duration::from_secs(1)).build().unwrap();
    let running = tokio::spawn(worker.drain());
    started.notified().await;
    // Another worker waits for twenty leases, and gets nothing.
    let thief = ClaimRequest::new("thief", LeaseLength::secs(1)).wait(Duration::from_secs(20));
    assert!(queue.claim(thief).await.unwrap().is_empty());
    assert!(beats.load(Ordering::SeqCst) >= 20);
    gate.notify_one();
    running.await.unwrap().unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.token.as_u64(), record.counters.deliveries), (StateKind::Done, 1, 1));
}

#[tokio::test]
async fn a_worker_that_cannot_be_built_names_every_mistake() {
    let error = Worker::builder(&db())
        .queue("")
        .owner("")
        .concurrency(0)
        .lease(Duration::ZERO)
        .build()
        .unwrap_err()
        .to_string();
    for mistake in ["queue name is empty", "owner \"\"", "no handlers", "concurrency 0", "the lease, 0ns"] {
        assert!(error.contains(mistake), "{mistake} is missing in: {error}");
    }
}

#[tokio::test]
async fn a_worker_removes_what_is_finished_and_old() {
    let clock = ManualClock::default();
    let db = crate::store::fresh(Db::builder().clock(clock.clone()).inline());
    let queue = db.queue("q").unwrap();
    let id = queue.enqueue(task("n")).await.unwrap().id;
    let worker = Worker::builder(&db)
        .queue("q")
        .handler("n", |_: u32, _| async { Ok(Outcome::done(())) })
        .poll_interval(Duration::from_millis(10));
    let watching = queue.clone();
    let stop = async move {
        while watching.stats().await.unwrap().done == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        clock.advance(Duration::from_hours(25));
        while watching.get(id).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    worker.build().unwrap().run_until(stop).await.unwrap();
    assert_eq!(queue.stats().await.unwrap().done, 0);
}

#[tokio::test]
async fn a_cancel_from_another_process_reaches_the_handler_within_a_heartbeat() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cancel.db");
    let (db, elsewhere) = (crate::store::shared(&file), crate::store::shared(&file));
    let id = db.queue("q").unwrap().enqueue(task("n")).await.unwrap().id;
    let (started, heard) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (starting, hearing) = (Arc::clone(&started), Arc::clone(&heard));
    let watching = move |_: u32, cx: TaskContext| {
        let hearing = Arc::clone(&hearing);
        starting.notify_one();
        async move {
            cx.cancelled().await;
            hearing.notify_one(); // time to clean up
            Ok(Outcome::done(()).put("k", "v"))
        }
    };
    let worker = on(&db).handler("n", watching).lease(Duration::from_secs(1)).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    started.notified().await;
    assert!(elsewhere.queue("q").unwrap().cancel(id).await.unwrap());
    heard.notified().await;
    handle.shutdown();
    running.await.unwrap().unwrap();
    let record = elsewhere.queue("q").unwrap().get(id).await.unwrap().unwrap();
    assert_eq!(record.state.kind(), StateKind::Cancelled);
    assert!(db.default_scope().kv().get("k").await.unwrap().is_none());
}

#[tokio::test]
async fn a_context_that_outlives_its_handler_holds_no_slot() {
    let db = db();
    db.queue("q").unwrap().enqueue_batch(vec![task("n"); 5]).await.unwrap();
    let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keeping = Arc::clone(&kept);
    let leak = move |_: u32, cx: TaskContext| {
        keeping.lock().unwrap().push(cx);
        std::future::ready(Ok(Outcome::done(())))
    };
    on(&db).handler("n", leak).concurrency(1).build().unwrap().drain().await.unwrap();
    assert_eq!(kept.lock().unwrap().len(), 5);
    // Whoever holds one can write nothing with it.
    let late = kept.lock().unwrap().pop().unwrap();
    assert_eq!(late.checkpoint(&"late").await.unwrap_err().kind(), aedb_queue::ErrorKind::LeaseLost);
}
