//! What the core costs beside the floor: the same key operations straight on redb, with the same batches and syncs.
//!
//! `cargo bench -p aedb-queue` prints one table. Ratios are taken in one run, alternating, since machines are noisy.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time"
)]

mod backlog;
mod callers;
mod floor;
mod handover;
mod lifecycle;

use std::path::{Path, PathBuf};

use aedb_queue::NewTask;

/// A row of the table: what, how it came out, and what was asked for.
struct Row(String, String, String);

const PAYLOAD: usize = 128;

fn task() -> NewTask {
    NewTask::new("bench.task", &"x".repeat(PAYLOAD)).unwrap()
}

fn file(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, count, path] = args.as_slice()
        && let Some(count) = count.strip_prefix("--child=")
    {
        return backlog::child(Path::new(path), count.parse().unwrap());
    }
    if let [_, claimer, path] = args.as_slice()
        && claimer == "--claimer"
    {
        return handover::child(Path::new(path));
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut rows = Vec::new();
    for part in [lifecycle::run, callers::run, handover::run, backlog::run] {
        rows.extend(part(&folder, quick));
    }
    println!("\n| measured | result | wanted |\n|---|---|---|");
    for Row(what, result, wanted) in rows {
        println!("| {what} | {result} | {wanted} |");
    }
}
