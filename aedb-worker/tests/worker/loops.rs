//! The worker's own loops: their panics, their bounds, and what they leave behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use aedb_queue::{ClaimRequest, Db, ErrorKind, LeaseLength, ManualClock, StateKind};
use aedb_worker::testing::{Fault, Faults, Verb};
use aedb_worker::{Outcome, TaskContext, TaskError};

use crate::{on, one_task, task, until};

const VERBS: [Verb; 5] = [Verb::Claim, Verb::Heartbeat, Verb::Settle, Verb::Sweep, Verb::Acquire];

/// Lets a worker finish a task that takes longer than a lease and a sweep, with a store that panics.
async fn run_with_panics(verb: Verb, times: u64) -> (Result<(), aedb_queue::Error>, StateKind) {
    let (db, queue, id) = one_task().await;
    let (faults, panics) = (Faults::new(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&panics);
    faults
        .plan(move |call| (call.verb == verb && count.fetch_add(1, Ordering::SeqCst) < times).then_some(Fault::Panic));
    let seen = Arc::clone(&panics);
    let slow = move |_: u32, _: TaskContext| {
        let seen = Arc::clone(&seen);
        async move {
            // Until its lease was extended and its queue swept after the panic; for ever, if the panics never end.
            if verb != Verb::Settle {
                until(|| async { seen.load(Ordering::SeqCst) > times }).await;
            }
            Ok(Outcome::done(()))
        }
    };
    let worker = on(&faults.on(&db))
        .handler("n", slow)
        .lease(Duration::from_secs(1))
        .poll_interval(Duration::from_millis(10))
        .grace(Duration::from_millis(10))
        .build()
        .unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    if times < 5 {
        until(|| async { queue.stats().await.unwrap().done == 1 }).await;
        handle.shutdown();
    }
    let ended = running.await.unwrap();
    (ended, queue.get(id).await.unwrap().unwrap().state.kind())
}

#[tokio::test]
async fn c30_a_panic_in_any_part_of_the_worker_is_survived() {
    for verb in VERBS {
        // Presence calls once a minute, so it cannot be waited for twice.
        let times = if verb == Verb::Acquire { 0 } else { 1 };
        let (ended, state) = run_with_panics(verb, times).await;
        assert_eq!((ended.is_ok(), state), (true, StateKind::Done), "{verb:?}");
    }
}

#[tokio::test]
async fn c30_a_part_that_panics_again_and_again_ends_the_worker_with_an_error() {
    for verb in VERBS {
        let (ended, _) = run_with_panics(verb, u64::MAX).await;
        let error = ended.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{verb:?}");
        assert!(error.to_string().contains("panicked 5 times"), "{verb:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_no_more_run_at_once_than_the_concurrency_and_no_more_are_claimed_than_the_prefetch_on_top() {
    for prefetch in [0, 3] {
        let (db, queue, _) = one_task().await;
        queue.enqueue_batch(vec![task("n"); 49]).await.unwrap();
        let (running, most, held) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let (now, top, claimed, looking) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&held), queue.clone());
        let handler = move |_: u32, _: TaskContext| {
            let (now, top, claimed, looking) =
                (Arc::clone(&now), Arc::clone(&top), Arc::clone(&claimed), looking.clone());
            async move {
                top.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..3 {
                    claimed.fetch_max(looking.stats().await?.in_flight, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(Outcome::done(()))
            }
        };
        let worker = on(&db).handler("n", handler).concurrency(1).prefetch(prefetch).build().unwrap();
        worker.drain().await.unwrap();
        assert_eq!(queue.stats().await.unwrap().done, 50);
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(held.load(Ordering::SeqCst) <= 1 + prefetch as u64);
    }
}

#[tokio::test]
async fn c22_ten_thousand_expired_leases_come_back_without_any_other_traffic() {
    let clock = ManualClock::default();
    let db = crate::store::fresh(Db::builder().clock(clock.clone()));
    let queue = db.queue("q").unwrap();
    queue.enqueue_batch(vec![task("n"); 10_000]).await.unwrap();
    let lost = queue.claim(ClaimRequest::new("lost", LeaseLength::secs(1)).max(10_000)).await.unwrap();
    assert_eq!(lost.len(), 10_000);
    clock.advance(Duration::from_secs(2));
    let worker = on(&db).handler("n", |_: u32, _| async { Ok(Outcome::done(())) }).concurrency(1_000);
    worker.build().unwrap().drain().await.unwrap();
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.done, stats.in_flight, stats.ready), (10_000, 0, 0));
}

#[tokio::test]
async fn c25_ended_attempts_leave_no_future_behind_and_no_call_for_their_tokens() {
    let (db, queue, _) = one_task().await;
    let mut tasks = Vec::new();
    for name in ["n", "fail", "panic", "late"] {
        tasks.extend(vec![task(name); 250]);
    }
    queue.enqueue_batch(tasks).await.unwrap();
    let cancelled = queue.enqueue_batch(vec![task("endless").priority(1); 20]).await.unwrap();
    let faults = Faults::new();
    let worker = on(&faults.on(&db))
        .handler("n", |_: u32, _| async { Ok(Outcome::done(())) })
        .handler("fail", |_: u32, _| async { Err::<Outcome, _>(TaskError::new("boom").fatal()) })
        .handler(
            "panic",
            |input: u32, _| async move { if input == 1 { panic!("boom") } else { Ok(Outcome::done(())) } },
        )
        .handler("late", |_: u32, _| std::future::pending::<Result<Outcome, TaskError>>())
        .timeout(Duration::from_millis(10))
        .handler("endless", |_: u32, _| std::future::pending::<Result<Outcome, TaskError>>())
        .lease(Duration::from_secs(1))
        .concurrency(100)
        .build()
        .unwrap();
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    for task in cancelled {
        assert!(queue.cancel(task.id).await.unwrap());
    }
    until(|| async {
        let stats = queue.stats().await.unwrap();
        stats.ready + stats.scheduled + stats.in_flight == 0
    })
    .await;
    let beats = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&beats);
    faults.plan(move |call| {
        count.fetch_add(u64::from(matches!(call.verb, Verb::Heartbeat | Verb::Settle)), Ordering::SeqCst);
        None
    });
    // Longer than a cancelled handler may clean up, and than a lease.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    beats.store(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(beats.load(Ordering::SeqCst), 0);
    assert_eq!(metrics.num_alive_tasks(), before + 1, "only the worker's own future is left");
    handle.shutdown();
    running.await.unwrap().unwrap();
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.done, stats.dead, stats.cancelled), (251, 750, 20));
}

#[tokio::test]
async fn c28_an_attempt_that_waits_for_ever_is_stopped_by_its_timeout_and_does_not_hold_up_the_end() {
    let (db, queue, id) = one_task().await;
    queue.enqueue(task("next")).await.unwrap();
    let worker = on(&db)
        .handler("n", |_: u32, _| std::future::pending::<Result<Outcome, TaskError>>())
        .timeout(Duration::from_millis(50))
        .handler("next", |_: u32, _| async { Ok(Outcome::done(())) })
        .concurrency(1);
    worker.build().unwrap().drain().await.unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.failures.len()), (StateKind::Dead, 2));
    assert!(record.failures[0].error.contains("longer than its handler's timeout"), "{}", record.failures[0].error);
    assert_eq!(queue.stats().await.unwrap().done, 1);
}

#[tokio::test]
async fn c32_every_concurrency_drains_everything_and_ends() {
    for concurrency in [1, 50, 1_000] {
        let db = crate::store::fresh(Db::builder());
        let queue = db.queue("q").unwrap();
        queue.enqueue_batch(vec![task("n"); 2_000]).await.unwrap();
        let worker = on(&db).handler("n", |_: u32, _| async { Ok(Outcome::done(())) }).concurrency(concurrency);
        worker.build().unwrap().drain().await.unwrap();
        assert_eq!(queue.stats().await.unwrap().done, 2_000, "{concurrency}");
    }
}

#[tokio::test]
async fn c32_a_drain_does_not_end_before_a_task_that_failed_while_it_asked_for_more() {
    let (db, queue, id) = one_task().await;
    let (faults, claims) = (Faults::new(), Arc::new(AtomicU64::new(0)));
    let asked = Arc::clone(&claims);
    // The second claim finds nothing, and is told so when the attempt has failed.
    let late = Fault::Late(Duration::from_millis(300));
    faults.plan(move |call| {
        (call.verb == Verb::Claim && asked.fetch_add(1, Ordering::SeqCst) == 1).then(|| late.clone())
    });
    let fails_first = move |_: u32, cx: TaskContext| {
        let claims = Arc::clone(&claims);
        async move {
            until(|| async { claims.load(Ordering::SeqCst) > 1 }).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if cx.attempt() == 1 { Err(TaskError::new("first")) } else { Ok(Outcome::done(())) }
        }
    };
    on(&faults.on(&db)).handler("n", fails_first).build().unwrap().drain().await.unwrap();
    assert_eq!(queue.get(id).await.unwrap().unwrap().state.kind(), StateKind::Done);
}
