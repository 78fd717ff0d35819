//! What the worker costs on PostgreSQL beside the core alone, in one run: `AEDB_POSTGRES` names the server.
//!
//! `source tests/postgres.sh && start_postgres && cargo bench -p aedb-worker --features postgres --bench postgres`

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::time::{Duration, Instant};

use aedb_queue::{ClaimRequest, Completion, Db, Decision, LeaseLength, NewTask, Queue, Settlement};
use aedb_worker::{Outcome, TaskContext, Worker};

const BATCH: usize = 500;

fn tasks(count: usize) -> Vec<NewTask> {
    vec![NewTask::new("n", &"x".repeat(128)).unwrap(); count]
}

/// Enqueue, claim, complete in batches on two connections at once; tasks a second.
async fn core(db: &Db, count: usize) -> f64 {
    let began = Instant::now();
    let half = || async {
        let queue = db.queue("core").unwrap();
        for _ in 0..count / BATCH / 2 {
            queue.enqueue_batch(tasks(BATCH)).await.unwrap();
            let claims = queue.claim(ClaimRequest::new("w", LeaseLength::secs(30)).max(BATCH)).await.unwrap();
            let done = claims.iter().map(|claim| Settlement::new(claim, Decision::Complete(Completion::new())));
            queue.settle(done.collect()).await.unwrap();
        }
    };
    tokio::join!(half(), half());
    count as f64 / began.elapsed().as_secs_f64()
}

/// The same through a worker whose handlers do nothing, while a producer enqueues batches.
async fn worker(db: &Db, queue: &Queue, count: usize) -> f64 {
    let nothing = |_: String, _: TaskContext| async { Ok(Outcome::done(())) };
    let worker = Worker::builder(db).queue(queue.name()).handler("n", nothing).concurrency(1_000).prefetch(1_000);
    let worker = worker.build().unwrap();
    let handle = worker.handle();
    let before = queue.stats().await.unwrap().done;
    let began = Instant::now();
    let running = tokio::spawn(worker.run());
    for _ in 0..count / BATCH {
        queue.enqueue_batch(tasks(BATCH)).await.unwrap();
    }
    while queue.stats().await.unwrap().done < before + count as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    handle.shutdown();
    running.await.unwrap().unwrap();
    count as f64 / took.as_secs_f64()
}

fn main() {
    let Ok(url) = std::env::var("AEDB_POSTGRES") else {
        println!("AEDB_POSTGRES names no server: source tests/postgres.sh && start_postgres");
        return;
    };
    let quick = std::env::args().any(|arg| arg == "--quick");
    let (rounds, count) = if quick { (3, 20_000) } else { (5, 100_000) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let schema = format!("bench_worker_{}", std::process::id());
        let db = Db::builder().schema(schema).connections(4).connect(&url).await.unwrap();
        let queue = db.queue("worker").unwrap();
        let mut ratios = Vec::new();
        let mut rates = Vec::new();
        for round in 0..=rounds {
            let (alone, through) = (core(&db, count).await, worker(&db, &queue, count).await);
            if round > 0 {
                ratios.push(through / alone);
                rates.push((through, alone));
            }
        }
        println!("worker and core, each round: {rates:.0?}");
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios.get(ratios.len() / 2).unwrap();
        println!("\n| measured | result | wanted |\n|---|---|---|");
        println!("| on PostgreSQL, handlers that do nothing | {ratio:.2} of the core's lifecycle in batches | 0.7 of the core |");
    });
}
