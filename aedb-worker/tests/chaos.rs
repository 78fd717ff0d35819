//! Several workers over stores that fail at random, on a clock that jumps, with producers and cancellers in between. When the
//! faults stop, everything drains, and what was acknowledged is done, once.
//!
//! The faults and the load are drawn by a seed; threads are the system's, so a seed is not a replay. 40 seeds by default, 8 on a server;
//! `AEDB_SEEDS=2000 cargo test -p aedb-worker --test chaos` runs more, `AEDB_SEED=n` one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../../tests/src/store.rs"]
mod store;
#[path = "../../tests/src/summary.rs"]
mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedb_queue::{Backoff, Db, ErrorKind, ManualClock, NewTask, Queue, StateKind, TaskId};
use aedb_worker::testing::{Call, Fault, Faults, Verb};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker};
use tokio::time::sleep;

/// A number for a seed and a step; SplitMix64's finaliser.
fn dice(seed: u64, step: u64) -> u64 {
    let z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(step.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How often each fault has struck, over all seeds.
#[derive(Default)]
struct Struck {
    fail: AtomicU64,
    lose: AtomicU64,
    delay: AtomicU64,
    panic: AtomicU64,
}

fn faults(seed: u64, worker: u64, struck: &Arc<Struck>) -> Faults {
    let (faults, calls, struck) = (Faults::new(), AtomicU64::new(0), Arc::clone(struck));
    faults.plan(move |call: Call| {
        let roll = dice(seed ^ (worker << 40), calls.fetch_add(1, Ordering::Relaxed)) % 100;
        let writes = call.verb != Verb::Read;
        match roll {
            0..=3 => {
                struck.fail.fetch_add(1, Ordering::Relaxed);
                Some(Fault::Fail)
            }
            4..=7 if writes => {
                struck.lose.fetch_add(1, Ordering::Relaxed);
                Some(Fault::LoseAnswer)
            }
            8..=10 => {
                struck.delay.fetch_add(1, Ordering::Relaxed);
                Some(Fault::Delay(Duration::from_millis(roll)))
            }
            11 if matches!(call.verb, Verb::Claim | Verb::Settle | Verb::Heartbeat | Verb::Sweep) => {
                struck.panic.fetch_add(1, Ordering::Relaxed);
                Some(Fault::Panic)
            }
            _ => None,
        }
    });
    faults
}

/// What a task does, by its number: done, failing first, snoozing, slow, checkpointing, going on.
async fn work(number: u64, cx: TaskContext) -> Result<Outcome<u64>, TaskError> {
    match number % 6 {
        1 if cx.attempt() == 1 => return Err(TaskError::new("first")),
        2 if cx.deliveries() == 1 => return Ok(Outcome::snooze(Duration::from_millis(number))),
        3 => tokio::select! {
            () = cx.cancelled() => return Err(TaskError::new("interrupted")),
            () = sleep(Duration::from_millis(30)) => {}
        },
        // A checkpoint that fails is the handler's to judge; this one can do without.
        4 => drop(cx.checkpoint(&number).await),
        5 if number < 1_000 => return Ok(Outcome::continue_with(&(number + 6_000))?),
        _ => {}
    }
    let key = format!("done:{}", cx.id());
    cx.effects().assert_absent(key.as_str()).put(key, cx.token().to_string());
    cx.enqueue("q", NewTask::new("follow", &number)?.idempotency_key(format!("follow {}", cx.id())));
    Ok(Outcome::done(number))
}

fn worker(db: &Db) -> Worker {
    let follow = |_: u64, _: TaskContext| async { Ok(Outcome::done(())) };
    let worker = Worker::builder(db).queue("q").handler("work", work).handler("follow", follow);
    worker
        .concurrency(4)
        .prefetch(2)
        .lease(Duration::from_secs(1))
        .grace(Duration::from_millis(20))
        .poll_interval(Duration::from_millis(20))
        .build()
        .unwrap()
}

/// Enqueues until it is told yes; the key makes that one task.
async fn enqueue(queue: &Queue, number: u64) -> TaskId {
    loop {
        let task = NewTask::new("work", &number).unwrap().max_lost_leases(10_000).max_attempts(1_000);
        let task = task.backoff(Backoff::fixed(Duration::from_millis(50))).idempotency_key(number.to_string());
        match queue.enqueue(task).await {
            Ok(outcome) => return outcome.id,
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::UnknownOutcome)),
        }
    }
}

async fn run(seed: u64, struck: &Arc<Struck>) {
    let clock = ManualClock::default();
    let beneath = crate::store::fresh(Db::builder().clock(clock.clone()));
    let queue = beneath.queue("q").unwrap();
    let mut running = Vec::new();
    let mut all_faults = Vec::new();
    for n in 0..3 {
        let faults = faults(seed, n, struck);
        let worker = worker(&faults.on(&beneath));
        running.push((worker.handle(), tokio::spawn(worker.run())));
        all_faults.push(faults);
    }
    let producer = faults(seed, 9, struck).on(&beneath).queue("q");
    let mut tasks = BTreeMap::new();
    let mut cancelled = Vec::new();
    for number in 0..60 {
        let Ok(producer) = &producer else { unreachable!() };
        let id = enqueue(producer, number).await;
        tasks.insert(id, number);
        let roll = dice(seed, number + 1_000);
        // Leases run out at once, delays pass, and some tasks are no longer wanted.
        clock.advance(Duration::from_millis(roll % 40 + if roll.is_multiple_of(23) { 1_500 } else { 0 }));
        if roll.is_multiple_of(11) && queue.cancel(id).await.unwrap() {
            cancelled.push(id);
        }
        if roll.is_multiple_of(3) {
            sleep(Duration::from_millis(roll % 5)).await;
        }
        if roll.is_multiple_of(17) {
            // A rolling restart.
            let (handle, old) = running.remove(0);
            handle.shutdown();
            let _ = old.await.unwrap();
            let worker = worker(&all_faults[0].on(&beneath));
            running.push((worker.handle(), tokio::spawn(worker.run())));
        }
    }
    all_faults.iter().for_each(Faults::clear);
    // A worker may have ended because a part of it panicked again and again; the last one has no faults.
    let last = worker(&beneath);
    running.push((last.handle(), tokio::spawn(last.run())));
    let mut rounds = 0;
    loop {
        let stats = queue.stats().await.unwrap();
        if stats.scheduled + stats.ready + stats.in_flight == 0 {
            break;
        }
        rounds += 1;
        assert!(rounds < 2_000, "seed {seed} does not drain: {stats:?}");
        clock.advance(Duration::from_millis(20));
        sleep(Duration::from_millis(5)).await;
    }
    for (handle, worker) in running {
        handle.shutdown();
        let _ = worker.await.unwrap();
    }
    verify(seed, &beneath, &queue, &tasks, &cancelled).await;
}

async fn verify(seed: u64, db: &Db, queue: &Queue, tasks: &BTreeMap<TaskId, u64>, cancelled: &[TaskId]) {
    let kv = db.default_scope().kv();
    let mut follow_ups = 0;
    for (id, number) in tasks {
        let record = queue.get(*id).await.unwrap().unwrap();
        let written = kv.get(format!("done:{id}")).await.unwrap();
        if cancelled.contains(id) {
            assert_eq!((record.state.kind(), written), (StateKind::Cancelled, None), "seed {seed}, task {id}");
            continue;
        }
        assert_eq!(record.state.kind(), StateKind::Done, "seed {seed}, task {id}: {:?}", record.failures);
        // Every failure was the handler's own, or the panic of a checkpoint within it: no effect was tried twice.
        for failure in &record.failures {
            let own = &*failure.error == "first" && number % 6 == 1;
            assert!(own || failure.error.contains("a planned panic"), "seed {seed}, task {id}: {}", failure.error);
        }
        assert_eq!(
            written.map(|token| String::from_utf8(token).unwrap()),
            Some(record.token.to_string()),
            "seed {seed}"
        );
        follow_ups += 1;
    }
    let done = queue.stats().await.unwrap().done;
    assert_eq!(done, 2 * follow_ups, "seed {seed}: each done task has one follow-up");
    assert!(queue.check().await.unwrap().is_clean(), "seed {seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_faults_stop_everything_drains_and_is_done_once() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let struck = Arc::new(Struck::default());
    // The planted panics are this test's own noise.
    std::panic::set_hook(Box::new(|panic| {
        if !panic.payload().downcast_ref::<&str>().is_some_and(|words| words.contains("planned")) {
            eprintln!("{panic}");
        }
    }));
    // A server's calls take longer.
    let usual = if store::is_served() { 8 } else { 40 };
    let seeds = number("AEDB_SEED").map_or(0..number("AEDB_SEEDS").unwrap_or(usual), |seed| seed..seed + 1);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        run(seed, &struck).await;
    }
    let counts = [&struck.fail, &struck.lose, &struck.delay, &struck.panic].map(|count| count.load(Ordering::Relaxed));
    let [failed, lost, late, panicked] = counts;
    let much = format!("{count} seeds: {failed} calls failed, {lost} answers lost, {late} late, {panicked} panics");
    summary::tell("workers over stores that fail at random", &much);
    assert!(count == 1 || counts.iter().all(|count| *count > 0), "a fault never struck: {counts:?}");
}
