//! The worker, from outside: what becomes of attempts, how it stops, and what it does when leases, stores and handlers fail.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod attempts;
mod kit;
mod leases;
mod logs;
mod loops;
#[cfg(feature = "metrics")]
mod measured;
mod outbox;
mod processes;
mod progress;
mod queues;
mod steering;
mod steps;
mod stopping;
#[path = "../../../tests/src/store.rs"]
mod store;
mod store_faults;
#[path = "../../../tests/src/summary.rs"]
mod summary;

use std::future::{Future, Pending, pending};
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{Backoff, Db, NewTask, Queue, TaskId};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker, WorkerBuilder};
use tokio::sync::Notify;

/// A task of this name that may fail twice, without pauses.
fn task(name: &str) -> NewTask {
    NewTask::new(name, &1).unwrap().max_attempts(2).backoff(Backoff::none())
}

async fn one_task() -> (Db, Queue, TaskId) {
    one_task_in(store::fresh(Db::builder())).await
}

/// A queue `q` with one task `n`.
async fn one_task_in(db: Db) -> (Db, Queue, TaskId) {
    let queue = db.queue("q").unwrap();
    let id = queue.enqueue(task("n")).await.unwrap().id;
    (db, queue, id)
}

/// A worker on the queue `q`.
fn on(db: &Db) -> WorkerBuilder {
    Worker::builder(db).queue("q")
}

/// A handler that tells when it starts, and never ends by itself.
fn endless(started: &Arc<Notify>) -> impl Fn(u32, TaskContext) -> Pending<Result<Outcome, TaskError>> + use<> {
    let started = Arc::clone(started);
    move |_, _| {
        started.notify_one();
        pending()
    }
}

/// Waits until something is so; a test that waits for ever is ended by this.
async fn until<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    for _ in 0..4_000 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not happen within 20 s");
}
