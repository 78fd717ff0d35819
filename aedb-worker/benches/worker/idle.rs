//! Attempts that only wait, and a worker that has nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aedb_queue::{Db, Queue};
use aedb_worker::testing::{Fault, Faults};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker, WorkerHandle};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::{Row, block_on, memory, open, processor_time, task, written};

type Running = (WorkerHandle, JoinHandle<aedb_queue::Result<()>>);

fn start(db: &Db) -> Running {
    let wait = |_: String, cx: TaskContext| async move {
        cx.cancelled().await;
        Err::<Outcome, _>(TaskError::new("stopped"))
    };
    let worker = Worker::builder(db).queue("bench").handler("bench.task", wait).concurrency(10_000).build().unwrap();
    (worker.handle(), tokio::spawn(worker.run()))
}

async fn stop((handle, running): Running) {
    handle.shutdown();
    running.await.unwrap().unwrap();
}

/// The share of one core that the process takes over a span.
async fn share_of_a_core(span: Duration) -> f64 {
    let (before, start) = (processor_time(), Instant::now());
    tokio::time::sleep(span).await;
    (processor_time() - before).as_secs_f64() / start.elapsed().as_secs_f64()
}

/// How many calls a worker with ten attempts makes of a store that is away.
async fn calls_of_a_store_that_is_away(folder: &TempDir, span: Duration) -> u64 {
    let (db, queue) = open(folder, "away.db");
    let (faults, calls) = (Faults::new(), Arc::new(AtomicU64::new(0)));
    queue.enqueue_batch(vec![task(); 10]).await.unwrap();
    let running = start(&faults.on(&db));
    while queue.stats().await.unwrap().in_flight < 10 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let count = Arc::clone(&calls);
    faults.plan(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Some(Fault::Fail)
    });
    tokio::time::sleep(span).await;
    let calls = calls.load(Ordering::Relaxed);
    faults.clear();
    stop(running).await;
    calls
}

/// Memory for each attempt, and the share of a core that keeping all leases takes.
async fn waiting(db: &Db, queue: &Queue, attempts: usize, span: Duration) -> (u64, f64) {
    // Everything that is allocated once, before.
    queue.enqueue_batch(vec![task(); 100]).await.unwrap();
    let running = start(db);
    while queue.stats().await.unwrap().in_flight < 100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = memory();
    queue.enqueue_batch(vec![task(); attempts - 100]).await.unwrap();
    while queue.stats().await.unwrap().in_flight < attempts as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let each = memory().saturating_sub(before) / (attempts as u64 - 100);
    let share = share_of_a_core(span).await;
    stop(running).await;
    (each, share)
}

pub(crate) fn run(folder: &TempDir, quick: bool) -> Vec<Row> {
    let (attempts, span) = if quick { (1_000, 3) } else { (10_000, 30) };
    let span = Duration::from_secs(span);
    let (db, queue) = open(folder, "waiting.db");
    let (each, share) = block_on(waiting(&db, &queue, attempts, span));
    drop((db, queue));
    let (db, _queue) = open(folder, "idle.db");
    let (idle, quiet) = block_on(async {
        let running = start(&db);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let path = folder.path().join("idle.db");
        let before = written(&path);
        let share = share_of_a_core(span).await;
        let quiet = written(&path) == before;
        stop(running).await;
        (share, quiet)
    });
    let calls = block_on(calls_of_a_store_that_is_away(folder, span));
    vec![
        Row(
            format!("{attempts} attempts that wait, leases of 30 s: all of the process"),
            format!("{:.1} % of one core", share * 100.0),
            "5 % of one core".into(),
        ),
        Row(
            format!("{attempts} attempts that wait: memory for each, with the database's cache of their records"),
            format!("{each} bytes"),
            "4 KB of our own".into(),
        ),
        Row(
            format!("an idle worker, over {} s", span.as_secs()),
            format!(
                "{:.2} % of one core, {}",
                idle * 100.0,
                if quiet { "nothing written" } else { "the file was written to" }
            ),
            "1 %, nothing written".into(),
        ),
        Row(
            format!("a store that is away for {} s, ten attempts", span.as_secs()),
            format!("{calls} calls"),
            "under 60 in 30 s".into(),
        ),
    ]
}
