//! What the runtime costs beside the core alone, in one run.
//!
//! `cargo bench -p aedb-worker` prints one table; `-- --quick` is a shorter run.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time"
)]

mod idle;
mod latency;
mod outbox;
mod throughput;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use aedb_queue::{Db, NewTask, Queue};
use tempfile::TempDir;

/// A row of the table: what, how it came out, and what was asked for.
struct Row(String, String, String);

/// A queue on a file of its own.
fn open(folder: &TempDir, name: &str) -> (Db, Queue) {
    let db = Db::open(folder.path().join(name)).unwrap();
    let queue = db.queue("bench").unwrap();
    (db, queue)
}

fn task() -> NewTask {
    NewTask::new("bench.task", &"x".repeat(128)).unwrap()
}

/// Runs a part on a runtime like an application's.
fn block_on<T>(part: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(part)
}

/// This process's time on the processor so far.
fn processor_time() -> Duration {
    // Fields 14 and 15 of /proc/self/stat, in ticks of 10 ms; the name in field 2 may hold spaces, so count from its end.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// This process's memory, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// When a file was last written to.
fn written(path: &Path) -> std::time::SystemTime {
    path.metadata().unwrap().modified().unwrap()
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut rows = Vec::new();
    for part in [throughput::run, outbox::run, latency::run, idle::run] {
        rows.extend(part(&folder, quick));
    }
    println!("\n| measured | result | wanted |\n|---|---|---|");
    for Row(what, result, wanted) in rows {
        println!("| {what} | {result} | {wanted} |");
    }
}
