//! The attribute `#[task]`, as users write it.

#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a test fails by panicking")]

mod enqueue;
mod forms;
mod graph;
#[path = "../../../tests/src/store.rs"]
mod store;
mod ui;
mod versions;

use aedb_queue::Db;
use aedb_worker::testing::Kit;
use aedb_worker::{Tasks, Worker};

/// A worker of these tasks on the queue `default`.
fn worker(kit: &Kit, tasks: Tasks) -> Worker {
    builder(kit.db()).tasks(tasks).build().unwrap()
}

fn builder(db: &Db) -> aedb_worker::WorkerBuilder {
    Worker::builder(db).queue("default")
}
