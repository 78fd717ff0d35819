//! A mixed load for a given time, with workers that are restarted: throughput, memory, file and ages, from the beginning to the end.
//!
//! `cargo run --release -p aedb-tests --bin soak -- 600` runs ten minutes. After the warm-up, memory and file should be flat: it fails if the
//! last tenth of the run holds half as much again as the first tenth after the warm-up.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods, reason = "a tool of the tests")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aedb_queue::{Backoff, Db, Effects, NewTask, Queue};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker, WorkerHandle};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Records of finished tasks are kept for this long, so that what is kept is soon as much as it will be.
const KEEP: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let secs = std::env::args().nth(1).map_or(60, |secs| secs.parse().unwrap());
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(soak(secs))
}

async fn work(number: u64, cx: TaskContext) -> Result<Outcome<u64>, TaskError> {
    if number.is_multiple_of(10) && cx.attempt() == 1 {
        return Err(TaskError::new("the first attempt of every tenth"));
    }
    if number.is_multiple_of(7) {
        cx.checkpoint(&number).await?;
    }
    cx.effects().put(format!("key:{}", number % 1_000), number.to_string());
    let done = Outcome::done(number);
    if number.is_multiple_of(5) {
        let follow = NewTask::new("follow", &number)?.keep_done(KEEP).delay(Duration::from_millis(number % 500));
        return Ok(done.then(("q", follow)));
    }
    Ok(done)
}

fn start(db: &Db) -> (WorkerHandle, JoinHandle<aedb_queue::Result<()>>) {
    let follow = |_: u64, _: TaskContext| async { Ok(Outcome::done(())) };
    let worker =
        Worker::builder(db).queue("q").handler("work", work).handler("follow", follow).concurrency(200).prefetch(200);
    let worker = worker.poll_interval(Duration::from_millis(100)).grace(Duration::from_secs(1)).build().unwrap();
    (worker.handle(), tokio::spawn(worker.run()))
}

/// Enqueues in batches, as fast as the backlog allows.
async fn produce(queue: Queue, count: Arc<AtomicU64>) {
    loop {
        if queue.stats().await.unwrap().ready > 5_000 {
            sleep(Duration::from_millis(5)).await;
            continue;
        }
        let first = count.fetch_add(100, Ordering::Relaxed);
        let task = |number: u64| {
            let payload = NewTask::new("work", &number).unwrap().keep_done(KEEP).priority(number % 3);
            let keyed = payload.idempotency_key_for(number.to_string(), KEEP);
            keyed.backoff(Backoff::fixed(Duration::from_millis(200)))
        };
        queue.enqueue_batch((first..first + 100).map(task).collect()).await.unwrap();
    }
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    enqueued: u64,
    memory: u64,
    file: u64,
}

async fn soak(secs: u64) -> ExitCode {
    let folder = tempfile::tempdir_in(".").unwrap();
    let file = folder.path().join("soak.db");
    let db = Db::builder().cache_bytes(16 << 20).open(&file).unwrap();
    let (queue, count) = (db.queue("q").unwrap(), Arc::new(AtomicU64::new(0)));
    let producer = tokio::spawn(produce(queue.clone(), Arc::clone(&count)));
    let mut workers = [start(&db), start(&db)];
    let (began, mut samples) = (Instant::now(), Vec::new());
    println!(
        "{:>6} {:>12} {:>10} {:>10} {:>12} {:>8} {:>10}",
        "second", "enqueued/s", "memory MiB", "file MiB", "oldest ready", "dead", "records"
    );
    let step = Duration::from_secs((secs / 20).max(1));
    let mut last = 0;
    while began.elapsed() < Duration::from_secs(secs) {
        sleep(step).await;
        let stats = queue.stats().await.unwrap();
        let enqueued = count.load(Ordering::Relaxed);
        let sample = Sample { enqueued, memory: memory(), file: size(&file) };
        let age = stats.oldest_ready.map_or(Duration::ZERO, |since| queue.now().saturating_since(since));
        println!(
            "{:>6} {:>12} {:>10} {:>10} {:>12} {:>8} {:>10}",
            began.elapsed().as_secs(),
            (enqueued - last) / step.as_secs(),
            sample.memory >> 20,
            sample.file >> 20,
            format!("{age:.1?}"),
            stats.dead,
            stats.done
        );
        (last, _) = (enqueued, samples.push(sample));
        // A rolling restart: the next one starts before the one before stops.
        let next = start(&db);
        let (handle, running) = std::mem::replace(&mut workers[samples.len() % 2], next);
        handle.shutdown();
        running.await.unwrap().unwrap();
    }
    producer.abort();
    for (handle, running) in workers {
        handle.shutdown();
        running.await.unwrap().unwrap();
    }
    assert!(queue.check().await.unwrap().is_clean());
    assert_eq!(queue.stats().await.unwrap().dead, 0);
    db.default_scope().kv().commit(Effects::new().put("soaked", "yes")).await.unwrap();
    verdict(&samples)
}

fn verdict(samples: &[Sample]) -> ExitCode {
    let (Some(warm), Some(end)) = (samples.get(samples.len() / 4), samples.last()) else { return ExitCode::FAILURE };
    let grew = |from: u64, to: u64| to as f64 / from.max(1) as f64;
    let (memory, file) = (grew(warm.memory, end.memory), grew(warm.file, end.file));
    println!("\n{} tasks; after the warm-up memory grew {memory:.2} times, the file {file:.2} times", end.enqueued);
    if memory < 1.5 && file < 1.5 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn size(file: &Path) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}
