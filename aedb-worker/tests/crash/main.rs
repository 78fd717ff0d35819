//! Eight workers in two processes on one file or server, killed and stopped at random moments. An oracle knows only what was acknowledged.
//!
//! 200 rounds by default; `AEDB_KILLS=20000 cargo test -p aedb-worker --test crash` runs more.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../../../tests/src/store.rs"]
mod store;
#[path = "../../../tests/src/summary.rs"]
mod summary;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aedb_queue::{Backoff, Db, Filter, NewTask, StateKind, TaskId};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker};

const FILE: &str = "AEDB_CRASH_TEST_FILE";
const WORKERS: usize = 4;

/// Writes what must be written once: a second time would be refused and leave a failure.
async fn work(number: u64, cx: TaskContext) -> Result<Outcome<u64>, TaskError> {
    cx.checkpoint(&number).await?;
    tokio::time::sleep(Duration::from_millis(number % 5)).await;
    let key = format!("done:{number}");
    cx.effects().assert_absent(key.as_str()).put(key, cx.token().to_string());
    let outcome = Outcome::done(number);
    if number.is_multiple_of(3) {
        return Ok(outcome.then(("q", NewTask::new("follow", &number)?)));
    }
    Ok(outcome)
}

async fn follow(number: u64, cx: TaskContext) -> Result<Outcome, TaskError> {
    let key = format!("followed:{number}");
    cx.effects().assert_absent(key.as_str()).put(key, "yes");
    Ok(Outcome::done(()))
}

fn worker(db: &Db) -> Worker {
    let worker = Worker::builder(db).queue("q").handler("work", work).handler("follow", follow);
    worker.concurrency(4).prefetch(2).lease(Duration::from_secs(1)).build().unwrap()
}

/// Not a test by itself: a process with half of the workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(file) = std::env::var(FILE) else { return };
    let db = store::shared(file.as_ref());
    let running: Vec<_> = (0..WORKERS).map(|_| tokio::spawn(worker(&db).run())).collect();
    for worker in running {
        worker.await.unwrap().unwrap();
    }
}

struct Process(Child);

impl Process {
    fn start(file: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child"]).env(FILE, file).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A number that looks random and is the same in every run.
fn dice(n: u64) -> u64 {
    let z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_killed_and_stopped_two_hundred_times_lose_nothing_and_write_everything_once() {
    let rounds: u64 = std::env::var("AEDB_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(if store::is_served() { 60 } else { 200 });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crash.db");
    let db = store::shared(&file);
    let queue = db.queue("q").unwrap();
    let mut processes = [Process::start(&file), Process::start(&file)];
    let mut acknowledged: Vec<(u64, TaskId)> = Vec::new();
    for round in 0..rounds {
        let numbers: Vec<u64> = (0..10).map(|n| round * 10 + n).collect();
        // Never dead by being lost often: that is another test's.
        let task = |number| NewTask::new("work", number).unwrap().max_lost_leases(1_000).backoff(Backoff::none());
        let answers = queue.enqueue_batch(numbers.iter().map(task).collect()).await.unwrap();
        acknowledged.extend(numbers.into_iter().zip(answers.iter().map(|answer| answer.id)));
        tokio::time::sleep(Duration::from_millis(30 + dice(round) % 80)).await;
        let victim = usize::try_from(dice(round + rounds) % 2).unwrap();
        if round % 25 == 24 {
            processes[victim].signal("-STOP");
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            processes[victim].signal("-CONT");
        } else {
            processes[victim] = Process::start(&file);
        }
    }
    drop(processes);
    let last = worker(&db);
    let (handle, running) = (last.handle(), tokio::spawn(last.run()));
    for _ in 0..600 {
        let stats = queue.stats().await.unwrap();
        if stats.ready + stats.in_flight + stats.scheduled == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    handle.shutdown();
    running.await.unwrap().unwrap();

    let (kv, mut lost, mut deliveries) = (db.default_scope().kv(), 0, 0);
    for (number, id) in &acknowledged {
        let record = queue.get(*id).await.unwrap().unwrap();
        assert_eq!((record.state.kind(), record.counters.failures), (StateKind::Done, 0), "{:?}", record.failures);
        assert_eq!(record.result.unwrap().to::<u64>().unwrap(), *number);
        // Written under the token that completed it, not under one that was lost.
        let written = kv.get(format!("done:{number}")).await.unwrap().unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), record.token.to_string());
        assert_eq!(kv.get(format!("followed:{number}")).await.unwrap().is_some(), number.is_multiple_of(3));
        lost += u64::from(record.counters.lost_leases > 0);
        deliveries += u64::from(record.counters.deliveries);
    }
    let stats = queue.stats().await.unwrap();
    assert_eq!(
        stats.done,
        acknowledged.len() as u64 + acknowledged.iter().filter(|(n, _)| n.is_multiple_of(3)).count() as u64
    );
    assert!(queue.list(Filter::dead()).await.unwrap().tasks.is_empty());
    assert!(queue.check().await.unwrap().is_clean());
    let tasks = acknowledged.len();
    let much = format!(
        "{rounds} kills and stops, {tasks} tasks, {deliveries} deliveries, {lost} lost a lease, each written once"
    );
    summary::tell("eight workers in two processes", &much);
    assert!(lost > 0, "nobody was killed in the middle of anything");
}
