//! The life of one attempt, top to bottom: find the handler, run it guarded, settle what it decided.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aedb_queue::{ClaimedTask, Decision};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::claim::Shared;
use super::settle;
use crate::context::TaskContext;
use crate::error::TaskError;
use crate::handler::Handler;

pub(crate) async fn live(shared: &Shared, task: Arc<ClaimedTask>, cancel: CancellationToken) {
    let decision = match shared.worker.handlers.get(&task.name) {
        Some(handler) => guarded(shared, handler, &task, cancel).await,
        None => Decision::Release, // some other worker knows this name
    };
    shared.running.end(&task);
    settle::settle(&shared.worker, &task, decision).await;
}

/// Runs the handler until it returns, panics, or must stop: an interrupted task goes back, charged nothing.
async fn guarded(shared: &Shared, handler: &Handler, task: &Arc<ClaimedTask>, cancel: CancellationToken) -> Decision {
    let worker = &shared.worker;
    let cx = TaskContext::new(Arc::clone(task), worker.queue.clone(), worker.lease, cancel.clone());
    // The handler's own function may panic before it returns a future, so it is called inside of the guard.
    let attempt = AssertUnwindSafe(async { handler(cx).await }).catch_unwind();
    tokio::select! {
        biased;
        returned = attempt => match returned {
            Ok(result) => settle::decide(worker, result),
            Err(panic) => settle::decide(worker, Err(TaskError::new(format!("the handler panicked: {}", words(&*panic))))),
        },
        () = cancel.cancelled() => Decision::Release,
    }
}

/// What a panic said, if it said it in words.
fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text")
}
