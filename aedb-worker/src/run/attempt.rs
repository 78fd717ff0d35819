//! The life of one attempt, top to bottom: find the handler, run it guarded, settle what it decided.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aedb_queue::{ClaimedTask, Decision, Retry};
use futures_util::FutureExt;

use super::Stop;
use super::claim::Shared;
use super::settle;
use crate::context::TaskContext;
use crate::error::TaskError;
use crate::handler::Handler;
use crate::worker::Worker;

pub(crate) async fn live(shared: &Shared, task: Arc<ClaimedTask>, stop: Stop) {
    let worker = &shared.worker;
    let cx = TaskContext::new(Arc::clone(&task), worker.queue.clone(), worker.lease, stop.clone());
    let decision = match worker.handlers.get(&task.name) {
        Some(handler) => guarded(worker, handler, &cx, &stop).await,
        None => Decision::Release, // some other worker knows this name
    };
    shared.running.end(&task);
    settle::settle(worker, &task, decision).await;
}

/// Runs the handler until it returns, panics, or must stop: an interrupted task goes back, charged nothing.
async fn guarded(worker: &Worker, handler: &Handler, cx: &TaskContext, stop: &Stop) -> Decision {
    // A handler may panic before it returns a future, and while that is dropped, so both happen inside of the guard.
    let attempt = async {
        tokio::select! {
            biased;
            returned = async { handler(cx.clone()).await } => settle::decide(worker, returned),
            () = stop.forced() => Decision::Release,
        }
    };
    match AssertUnwindSafe(attempt).catch_unwind().await {
        Ok(Decision::Fail { retry, .. }) if cx.was_told() && retry != Retry::Fatal => Decision::Release,
        Ok(decision) => decision,
        Err(_) if stop.is_forced() => Decision::Release,
        Err(panic) => settle::decide(worker, Err(TaskError::new(format!("the handler panicked: {}", words(&*panic))))),
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
