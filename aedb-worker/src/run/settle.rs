//! Settle: from what the handler returned to the queue's answer.

use std::time::Duration;

use aedb_queue::{ClaimedTask, Decision, ErrorKind, Retry, Settlement};
use tokio::time::sleep;

use crate::error::{self, TaskError};
use crate::outcome::{Kind, Outcome};
use crate::worker::Worker;

/// How often a settle is tried while the store cannot serve; then the lease runs out and the task comes back.
const TRIES: u32 = 8;

/// What the queue is told about an attempt that returned.
pub(crate) fn decide(worker: &Worker, result: Result<Outcome, TaskError>) -> Decision {
    match result {
        Ok(Outcome(Kind::Done(completion))) => Decision::Complete(completion),
        Ok(Outcome(Kind::Snooze(until))) => Decision::Snooze(until),
        Err(error) => Decision::Fail { error: error.to_string().into(), retry: retry(worker, &error) },
    }
}

fn retry(worker: &Worker, error: &TaskError) -> Retry {
    match error.retry {
        error::Retry::ByPolicy => Retry::ByPolicy,
        error::Retry::Never => Retry::Fatal,
        error::Retry::After(wait) => Retry::At(worker.queue.now().saturating_add(wait)),
    }
}

/// Tells the queue, until it has an answer. A lost lease needs no telling: nothing was applied, and somebody else has the task.
pub(crate) async fn settle(worker: &Worker, task: &ClaimedTask, decision: Decision) {
    let mut decision = decision;
    let mut pause = Duration::from_millis(20);
    for _ in 0..TRIES {
        let answer = worker.queue.settle(vec![Settlement::new(task, decision.clone())]).await;
        match answer.map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(_)) | None) => return,
            // The handler's own effects were refused: that is a failure of the attempt, and is recorded as one.
            Ok(Some(Err(error))) => decision = failure(&error),
            Err(error) if is_refusal(error.kind()) => decision = failure(&error),
            Err(_) => {
                sleep(pause).await;
                pause *= 2;
            }
        }
    }
}

fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::TooLarge | ErrorKind::PermissionDenied)
}

fn failure(error: &aedb_queue::Error) -> Decision {
    Decision::Fail { error: error.to_string().into(), retry: Retry::ByPolicy }
}
