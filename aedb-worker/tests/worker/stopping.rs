//! How a worker stops: asked, in time, and without charging anybody for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use aedb_queue::{ClaimRequest, Db, LeaseLength, ManualClock, Queue, StateKind, TaskId, TaskState};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker};
use tokio::sync::Notify;

use crate::{endless, on, one_task, one_task_in};

async fn assert_given_back(queue: &Queue, id: TaskId) {
    let record = queue.get(id).await.unwrap().unwrap();
    let counters = record.counters;
    assert_eq!(record.state.kind(), StateKind::Ready);
    assert_eq!((counters.attempts, counters.failures, counters.lost_leases, counters.deliveries), (0, 0, 0, 1));
}

#[tokio::test]
async fn a_handler_that_watches_for_the_stop_has_the_grace_to_save_its_progress() {
    let (db, queue, id) = one_task().await;
    let started = Arc::new(Notify::new());
    let starting = Arc::clone(&started);
    let saving = move |_: u32, cx: TaskContext| {
        starting.notify_one();
        async move {
            cx.cancelled().await;
            cx.checkpoint(&"half way").await?;
            Err::<Outcome, _>(TaskError::new("interrupted"))
        }
    };
    let worker = on(&db).handler("n", saving).build().unwrap();
    worker.run_until(async move { started.notified().await }).await.unwrap();
    assert_given_back(&queue, id).await;
    let progress = queue.get(id).await.unwrap().unwrap().progress.unwrap();
    assert_eq!(progress.to::<String>().unwrap(), "half way");
}

#[tokio::test]
async fn a_failure_during_the_grace_that_has_nothing_to_do_with_the_stop_is_a_failure() {
    let (db, queue, id) = one_task().await;
    let (started, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (starting, open) = (Arc::clone(&started), Arc::clone(&gate));
    let failing = move |_: u32, _: TaskContext| {
        let open = Arc::clone(&open);
        starting.notify_one();
        async move {
            open.notified().await;
            Err::<Outcome, _>(TaskError::new("boom"))
        }
    };
    let worker = on(&db).handler("n", failing).build().unwrap();
    let stop = async move {
        started.notified().await;
        gate.notify_one();
    };
    worker.run_until(stop).await.unwrap();
    assert_eq!(queue.get(id).await.unwrap().unwrap().counters.failures, 1);
}

#[tokio::test]
async fn a_panic_while_an_attempt_is_dropped_leaves_nothing_behind() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let (db, queue, id) = one_task().await;
    let started = Arc::new(Notify::new());
    let starting = Arc::clone(&started);
    let armed = move |_: u32, _: TaskContext| {
        let starting = Arc::clone(&starting);
        async move {
            let _bomb = Bomb;
            starting.notify_one();
            std::future::pending::<Result<Outcome, TaskError>>().await
        }
    };
    let worker = on(&db).handler("n", armed).grace(Duration::ZERO).build().unwrap();
    worker.run_until(async move { started.notified().await }).await.unwrap();
    assert_given_back(&queue, id).await;
}

#[tokio::test]
async fn a_dropped_run_stops_its_attempts_and_gives_their_tasks_back() {
    let (db, queue, id) = one_task().await;
    let started = Arc::new(Notify::new());
    let worker = on(&db).handler("n", endless(&started)).lease(Duration::from_secs(3600)).build().unwrap();
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    started.notified().await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    // It comes back long before its lease of an hour ends.
    let request = ClaimRequest::new("next", LeaseLength::secs(1)).wait(Duration::from_secs(5));
    assert_eq!(queue.claim(request).await.unwrap().first().map(|task| task.id), Some(id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_blocks_its_thread_cannot_hold_the_worker_up() {
    let (db, _, _) = one_task().await;
    let started = Arc::new(Notify::new());
    let (starting, (release, gate)) = (Arc::clone(&started), mpsc::channel::<()>());
    let gate = std::sync::Mutex::new(gate);
    let blocking = move |_: u32, _: TaskContext| {
        starting.notify_one();
        let _ = gate.lock().unwrap().recv();
        std::future::ready(Ok(Outcome::done(())))
    };
    let worker = on(&db).handler("n", blocking).grace(Duration::from_millis(10)).build().unwrap();
    let stopped = worker.run_until(async move { started.notified().await });
    let within = tokio::time::timeout(Duration::from_secs(5), stopped).await;
    drop(release);
    within.unwrap().unwrap();
}

#[tokio::test]
async fn an_attempt_whose_lease_was_taken_over_is_cancelled_and_writes_nothing() {
    let clock = ManualClock::default();
    let db = crate::store::fresh(Db::builder().clock(clock.clone()).inline());
    let (db, queue, id) = one_task_in(db).await;
    let started = Arc::new(Notify::new());
    let stopped = Arc::new(Notify::new());
    let (starting, stopping) = (Arc::clone(&started), Arc::clone(&stopped));
    let watching = move |_: u32, cx: TaskContext| {
        let stopping = Arc::clone(&stopping);
        starting.notify_one();
        async move {
            cx.cancelled().await;
            stopping.notify_one();
            Ok(Outcome::done(()).put("k", "from the worker that lost its lease"))
        }
    };
    let worker = on(&db).handler("n", watching).concurrency(1).lease(Duration::from_secs(1)).build().unwrap();
    let (thief, taken) = (queue.clone(), Arc::clone(&stopped));
    let stop = async move {
        started.notified().await;
        clock.advance(Duration::from_secs(2));
        let request = ClaimRequest::new("thief", LeaseLength::secs(60));
        assert_eq!(thief.claim(request).await.unwrap().len(), 1);
        taken.notified().await;
    };
    worker.run_until(stop).await.unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert!(matches!(record.state, TaskState::InFlight { owner, .. } if &*owner == "thief"));
    assert!(db.default_scope().kv().get("k").await.unwrap().is_none());
}

#[tokio::test]
async fn a_worker_that_may_not_claim_says_so_instead_of_waiting() {
    let (db, _, _) = one_task().await;
    let stranger = db.default_scope().as_caller("stranger").unwrap();
    let worker =
        Worker::builder_in(stranger).queue("q").handler("n", |_: u32, _| async { Ok(Outcome::done(())) }).build();
    let run = worker.unwrap().run_until(std::future::pending());
    let error = tokio::time::timeout(Duration::from_secs(5), run).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), aedb_queue::ErrorKind::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_whose_handler_ignores_the_stop_starts_elsewhere_within_a_second_of_it() {
    let (db, queue, id) = one_task().await;
    let (started, ended) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (starting, ending) = (Arc::clone(&started), Arc::clone(&ended));
    let deaf = move |_: u32, cx: TaskContext| {
        starting.notify_one();
        while !ending.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::future::ready(Ok(Outcome::done(()).put("k", format!("delivery {}", cx.deliveries()))))
    };
    let grace = Duration::from_millis(100);
    let worker = on(&db).handler("n", deaf).grace(grace).lease(Duration::from_hours(1)).build().unwrap();
    let stopped = worker.run_until(async move { started.notified().await });
    tokio::time::timeout(grace + Duration::from_secs(5), stopped).await.unwrap().unwrap();
    let second = |_: u32, cx: TaskContext| async move {
        Ok(Outcome::done(()).put("k", format!("delivery {}", cx.deliveries())))
    };
    let running = on(&db).handler("n", second).build().unwrap();
    let handle = running.handle();
    let running = tokio::spawn(running.run());
    let record = queue.wait_for(id, Duration::from_secs(5)).await.unwrap().finished().unwrap();
    assert_eq!((record.counters.deliveries, record.counters.failures, record.counters.lost_leases), (2, 0, 0));
    // The deaf handler ends now, long after its task was done by the other, and writes nothing.
    ended.store(true, Ordering::SeqCst);
    handle.shutdown();
    running.await.unwrap().unwrap();
    assert_eq!(db.default_scope().kv().get("k").await.unwrap().as_deref(), Some(b"delivery 2".as_slice()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c43_ten_rolling_restarts_under_load_charge_nobody_and_kill_nothing() {
    let db = crate::store::fresh(Db::builder());
    let queue = db.queue("q").unwrap();
    let tasks = vec![crate::task("n").max_attempts(3).backoff(aedb_queue::Backoff::default()); 300];
    let ids: Vec<_> = queue.enqueue_batch(tasks).await.unwrap().iter().map(|task| task.id).collect();
    let worker = || {
        let slow = |_: u32, _: TaskContext| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(Outcome::done(()))
        };
        on(&db).handler("n", slow).concurrency(8).prefetch(8).grace(Duration::ZERO).build().unwrap()
    };
    let mut before = worker();
    for _ in 0..10 {
        // The next one starts before the one before stops.
        let (next, handle) = (worker(), before.handle());
        let running = tokio::spawn(before.run());
        tokio::time::sleep(Duration::from_millis(50)).await;
        handle.shutdown();
        running.await.unwrap().unwrap();
        before = next;
    }
    before.drain().await.unwrap();
    let mut interrupted = 0;
    for id in ids {
        let record = queue.get(id).await.unwrap().unwrap();
        let counters = record.counters;
        assert_eq!((record.state.kind(), counters.attempts), (StateKind::Done, 1));
        assert_eq!((counters.failures, counters.lost_leases), (0, 0));
        interrupted += counters.deliveries - 1;
    }
    assert!(interrupted >= 10, "only {interrupted} attempts were interrupted");
}
