//! From the enqueue call to the handler's start, at a hundred tasks a second, beside one commit.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aedb_queue::{Effects, NewTask};
use aedb_worker::{Outcome, TaskContext, Worker};
use tempfile::TempDir;

use crate::{Row, block_on, open};

fn at(times: &mut [Duration], share: f64) -> Duration {
    times.sort();
    times[((times.len() - 1) as f64 * share) as usize]
}

pub(crate) fn run(folder: &TempDir, quick: bool) -> Vec<Row> {
    let count = if quick { 100 } else { 1_000 };
    let (mut starts, mut commits) = block_on(measure(folder, count));
    let commit = at(&mut commits, 0.5);
    let (half, most) = (at(&mut starts, 0.5), at(&mut starts, 0.99));
    let ratio = |time: Duration| time.as_secs_f64() / commit.as_secs_f64();
    vec![Row(
        "enqueue call to handler start, 100 a second: p50 and p99".into(),
        format!(
            "{half:.0?} and {most:.0?}: {:.2} and {:.2} of one commit of {commit:.0?} (its own p99: {:.2})",
            ratio(half),
            ratio(most),
            ratio(at(&mut commits, 0.99))
        ),
        "1.5 and 3".into(),
    )]
}

/// The times from enqueue to start, and of single commits of one key in between.
async fn measure(folder: &TempDir, count: usize) -> (Vec<Duration>, Vec<Duration>) {
    let (db, queue) = open(folder, "latency.db");
    let called = Arc::new(Mutex::new(Vec::new()));
    let (sent, base) = (Arc::clone(&called), Instant::now());
    let start = move |at: u64, _: TaskContext| {
        let start = base.elapsed() - Duration::from_nanos(at);
        sent.lock().unwrap().push(start);
        async { Ok(Outcome::done(())) }
    };
    let worker = Worker::builder(&db).queue("bench").handler("start", start).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let (mut commits, kv) = (Vec::new(), db.default_scope().kv());
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for n in 0..count {
        ticks.tick().await;
        let at = u64::try_from(base.elapsed().as_nanos()).unwrap();
        queue.enqueue(NewTask::new("start", &at).unwrap()).await.unwrap();
        if n % 4 == 0 {
            // A commit by itself, between two tasks, when the one before is settled.
            tokio::time::sleep(Duration::from_millis(4)).await;
            let start = Instant::now();
            kv.commit(Effects::new().put("key", n.to_string())).await.unwrap();
            commits.push(start.elapsed());
        }
    }
    while queue.stats().await.unwrap().done < count as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    handle.shutdown();
    running.await.unwrap().unwrap();
    let starts = std::mem::take(&mut *called.lock().unwrap());
    (starts, commits)
}
