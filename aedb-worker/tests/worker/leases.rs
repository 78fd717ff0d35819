//! Leases that are hard to keep: late heartbeats, blocked threads, a task that comes back while its old attempt still runs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use aedb_queue::{ClaimRequest, Db, LeaseLength, ManualClock, StateKind, TaskState};
use aedb_worker::testing::{Fault, Faults, Verb};
use aedb_worker::{Outcome, TaskContext, TaskError};
use tokio::sync::Notify;

use crate::{on, one_task, one_task_in, task, until};

/// A database whose heartbeats fail while this says so.
fn deaf(db: &Db) -> (Db, Arc<AtomicBool>) {
    let (faults, off) = (Faults::new(), Arc::new(AtomicBool::new(true)));
    let fails = Arc::clone(&off);
    faults.plan(move |call| (call.verb == Verb::Heartbeat && fails.load(Ordering::SeqCst)).then_some(Fault::Fail));
    (faults.on(db), off)
}

#[tokio::test]
async fn c11_heartbeats_that_fail_for_nine_tenths_of_a_lease_lose_nothing() {
    let (db, queue, id) = one_task().await;
    let (deaf, off) = deaf(&db);
    let (started, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (starting, open) = (Arc::clone(&started), Arc::clone(&gate));
    let wait = move |_: u32, cx: TaskContext| {
        let (starting, open) = (Arc::clone(&starting), Arc::clone(&open));
        async move {
            starting.notify_one();
            tokio::select! {
                () = cx.cancelled() => Err(TaskError::new("cancelled").fatal()),
                () = open.notified() => Ok(Outcome::done(())),
            }
        }
    };
    let lease = Duration::from_secs(5);
    let worker = on(&deaf).handler("n", wait).lease(lease).build().unwrap();
    let running = tokio::spawn(worker.drain());
    started.notified().await;
    tokio::time::sleep(lease.mul_f64(0.9)).await;
    off.store(false, Ordering::SeqCst);
    tokio::time::sleep(lease.mul_f64(0.3)).await;
    gate.notify_one();
    running.await.unwrap().unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.counters.deliveries), (StateKind::Done, 1), "{:?}", record.failures);
}

#[tokio::test]
async fn c11_an_attempt_whose_heartbeats_fail_is_asked_to_stop_before_its_lease_can_be_taken_over() {
    let (db, queue, _) = one_task().await;
    let (deaf, _off) = deaf(&db);
    let (asked, ended) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let (asking, ending, clock) = (Arc::clone(&asked), Arc::clone(&ended), queue.clone());
    let late = move |_: u32, cx: TaskContext| {
        let (asking, ending, clock) = (Arc::clone(&asking), Arc::clone(&ending), clock.clone());
        async move {
            cx.cancelled().await;
            *asking.lock().unwrap() = Some((clock.now(), cx.deadline()));
            std::future::pending::<()>().await;
            ending.store(true, Ordering::SeqCst);
            Ok(Outcome::done(()).put("k", "late"))
        }
    };
    let worker = on(&deaf).handler("n", late).lease(Duration::from_secs(2)).concurrency(1).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    until(|| async { asked.lock().unwrap().is_some() }).await;
    let (at, deadline) = asked.lock().unwrap().unwrap();
    assert!(at < deadline, "asked at {at}, and the lease ended at {deadline}");
    handle.shutdown();
    running.await.unwrap().unwrap();
    assert!(!ended.load(Ordering::SeqCst) && db.default_scope().kv().get("k").await.unwrap().is_none());
}

#[tokio::test]
async fn c15_a_task_that_comes_back_to_the_same_worker_is_completed_by_its_new_attempt_only() {
    let (db, queue, id) = one_task().await;
    // No heartbeat arrives, and the first attempt cannot give its task back before the lease has ended.
    let (faults, end) = (Faults::new(), tokio::time::Instant::now() + Duration::from_millis(1_300));
    faults.plan(move |call| {
        let refused = call.verb == Verb::Heartbeat || call.verb == Verb::Settle && tokio::time::Instant::now() < end;
        refused.then_some(Fault::Fail)
    });
    let deaf = faults.on(&db);
    let old_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&old_ended);
    let handler = move |_: u32, cx: TaskContext| {
        let ended = Arc::clone(&ended);
        async move {
            if cx.deliveries() == 1 {
                std::future::pending::<()>().await;
                ended.store(true, Ordering::SeqCst);
            }
            Ok(Outcome::done(()).put("token", cx.token().to_string()))
        }
    };
    let worker = on(&deaf).handler("n", handler).lease(Duration::from_secs(1)).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    until(|| async { queue.stats().await.unwrap().done == 1 }).await;
    handle.shutdown();
    running.await.unwrap().unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.token.as_u64(), record.counters.lost_leases, record.counters.failures), (2, 1, 0));
    assert_eq!(db.default_scope().kv().get("token").await.unwrap().as_deref(), Some(b"2".as_slice()));
    assert!(!old_ended.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c62_handlers_that_block_every_thread_for_five_leases_keep_their_tasks() {
    let (db, queue, _) = one_task().await;
    queue.enqueue_batch(vec![task("n"); 3]).await.unwrap();
    let lease = Duration::from_secs(1);
    let block = move |_: u32, _: TaskContext| {
        thread::sleep(lease * 5);
        std::future::ready(Ok(Outcome::done(())))
    };
    // Another worker tries to get them all the while, on a thread of its own.
    let (over, thief) = (Arc::new(AtomicBool::new(false)), queue.clone());
    let stop = Arc::clone(&over);
    let thief = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let request = ClaimRequest::new("thief", LeaseLength::of(lease)).max(10).wait(Duration::from_millis(100));
        let mut stolen = 0;
        while !stop.load(Ordering::SeqCst) {
            stolen += runtime.block_on(thief.claim(request.clone())).unwrap().len();
        }
        stolen
    });
    until(|| async { !thief.is_finished() }).await;
    // The worker has them all before the thief's first claim could be served again.
    let worker = on(&db).handler("n", block).lease(lease).concurrency(4);
    worker.build().unwrap().drain().await.unwrap();
    over.store(true, Ordering::SeqCst);
    let stolen = u64::try_from(thief.join().unwrap()).unwrap();
    let stats = queue.stats().await.unwrap();
    assert_eq!(stats.done + stolen, 4);
    for task in queue.list(aedb_queue::Filter::state(StateKind::Done)).await.unwrap().tasks {
        assert_eq!((task.counters.deliveries, task.counters.lost_leases), (1, 0));
    }
}

#[tokio::test]
async fn c63_a_heartbeat_that_arrives_after_the_lease_was_taken_over_changes_nothing() {
    let clock = ManualClock::default();
    let (db, queue, id) = one_task_in(crate::store::fresh(Db::builder().clock(clock.clone()).inline())).await;
    let (faults, gate, held) = (Faults::new(), Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let (hold, count) = (Arc::clone(&gate), Arc::clone(&held));
    faults.plan(move |call| {
        (call.verb == Verb::Heartbeat)
            .then(|| count.fetch_add(1, Ordering::SeqCst))
            .map(|_| Fault::Hold(Arc::clone(&hold)))
    });
    let stopped = Arc::new(Notify::new());
    let stopping = Arc::clone(&stopped);
    let watching = move |_: u32, cx: TaskContext| {
        let stopping = Arc::clone(&stopping);
        async move {
            cx.cancelled().await;
            stopping.notify_one();
            Ok(Outcome::done(()).put("k", "late"))
        }
    };
    let worker =
        on(&faults.on(&db)).handler("n", watching).concurrency(1).lease(Duration::from_secs(1)).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    until(|| async { held.load(Ordering::SeqCst) > 0 }).await;
    clock.advance(Duration::from_secs(2));
    let thief = queue.claim(ClaimRequest::new("thief", LeaseLength::secs(60))).await.unwrap().remove(0);
    gate.notify_waiters();
    stopped.notified().await;
    handle.shutdown();
    running.await.unwrap().unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    let TaskState::InFlight { owner, deadline, .. } = record.state else { panic!("{:?}", record.state) };
    assert_eq!((&*owner, deadline, record.token), ("thief", thief.deadline, thief.token));
    assert!(db.default_scope().kv().get("k").await.unwrap().is_none());
}
