//! Handlers that do nothing, beside the core's lifecycle in batches.

use std::time::{Duration, Instant};

use aedb_queue::{ClaimRequest, Completion, Db, Decision, LeaseLength, Queue, Settlement};
use aedb_worker::{Outcome, TaskContext, Worker};
use tempfile::TempDir;

use crate::{Row, block_on, open, task};

const BATCH: usize = 500;

async fn enqueue(queue: &Queue, count: usize) {
    let task = task();
    for _ in 0..count / BATCH {
        queue.enqueue_batch(vec![task.clone(); BATCH]).await.unwrap();
    }
}

/// The core alone: enqueue, claim and complete in batches of 500.
pub(crate) async fn core(queue: &Queue, count: usize) -> Duration {
    let start = Instant::now();
    enqueue(queue, count).await;
    for _ in 0..count / BATCH {
        let claimed = queue.claim(ClaimRequest::new("bench", LeaseLength::secs(60)).max(BATCH)).await.unwrap();
        let done = claimed.iter().map(|task| Settlement::new(task, Decision::Complete(Completion::new()))).collect();
        assert!(queue.settle(done).await.unwrap().iter().all(Result::is_ok));
    }
    start.elapsed()
}

/// The same enqueues, and a worker that drains.
async fn worker(db: &Db, queue: &Queue, count: usize, concurrency: usize) -> Duration {
    let start = Instant::now();
    enqueue(queue, count).await;
    let nothing = |_: String, _: TaskContext| async { Ok(Outcome::done(())) };
    let worker = Worker::builder(db).queue("bench").handler("bench.task", nothing);
    worker.concurrency(concurrency).prefetch(concurrency).build().unwrap().drain().await.unwrap();
    start.elapsed()
}

pub(crate) fn run(folder: &TempDir, quick: bool) -> Vec<Row> {
    let (count, rounds) = if quick { (5_000, 2) } else { (20_000, 5) };
    let (core_db, core_queue) = open(folder, "core.db");
    let (db, queue) = open(folder, "worker.db");
    let crowds = [1_000, 500, 50];
    let (mut alone, mut ours) = (Duration::ZERO, [Duration::ZERO; 3]);
    for _ in 0..rounds {
        alone += block_on(core(&core_queue, count));
        for (crowd, time) in crowds.iter().zip(&mut ours) {
            *time += block_on(worker(&db, &queue, count, *crowd));
        }
    }
    drop((core_db, db));
    let rate = |time: &Duration| (rounds * count) as f64 / time.as_secs_f64();
    let best = ours.iter().map(rate).fold(0.0, f64::max);
    vec![
        Row(
            "handlers that do nothing, best of concurrency and prefetch 1000, 500, 50".into(),
            format!(
                "{best:.0}/s, {:.2} of the core's lifecycle in batches, {:.0}/s",
                best / rate(&alone),
                rate(&alone)
            ),
            "0.7 of the core".into(),
        ),
        Row(
            "the same with 1000 beside 50".into(),
            format!("{:.0}/s, {:.1} of {:.0}/s", rate(&ours[0]), rate(&ours[0]) / rate(&ours[2]), rate(&ours[2])),
            "0.5".into(),
        ),
    ]
}
