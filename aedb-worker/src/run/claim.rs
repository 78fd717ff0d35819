//! The claim loop: a permit first, then a claim, so that nothing is leased that cannot start now.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{ClaimRequest, ClaimedTask, Filter, LeaseLength, Result, StateKind};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Running, attempt, heartbeat, sweep};
use crate::worker::Worker;

/// How long one claim waits for work; the loop looks around in between.
const WAIT: Duration = Duration::from_secs(1);
/// The same when draining, where an empty queue means the end.
const DRAIN_WAIT: Duration = Duration::from_millis(50);
/// The longest pause after claims that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// What all parts of a running worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) worker: Worker,
    pub(crate) running: Running,
    /// Cancelled when attempts must stop: after the grace.
    pub(crate) halt: CancellationToken,
}

pub(crate) async fn run(worker: Worker, stop: impl Future<Output = ()>, drain: bool) -> Result<()> {
    let permits = Arc::new(Semaphore::new(worker.concurrency));
    let shared = Arc::new(Shared { worker, running: Running::default(), halt: CancellationToken::new() });
    let (attempts, services, over) = (TaskTracker::new(), TaskTracker::new(), CancellationToken::new());
    services.spawn(heartbeat::beat(Arc::clone(&shared), over.clone()));
    services.spawn(sweep::sweep(Arc::clone(&shared), over.clone()));
    let claimed = tokio::select! {
        () = stop => Ok(()),
        ended = claim_loop(&shared, &permits, &attempts, drain) => ended,
    };
    attempts.close();
    if timeout(shared.worker.grace, attempts.wait()).await.is_err() {
        shared.halt.cancel();
        attempts.wait().await;
    }
    over.cancel();
    services.close();
    services.wait().await;
    claimed
}

async fn claim_loop(shared: &Arc<Shared>, permits: &Arc<Semaphore>, attempts: &TaskTracker, drain: bool) -> Result<()> {
    let worker = &shared.worker;
    let request = ClaimRequest::new(Arc::clone(&worker.owner), LeaseLength::of(worker.lease))
        .names(worker.handlers.keys().cloned())
        .wait(if drain { DRAIN_WAIT } else { WAIT });
    let mut pause = Duration::from_millis(50);
    loop {
        // The semaphore is never closed, so this always gets a permit.
        let Ok(permit) = permits.acquire().await else { return Ok(()) };
        let free = 1 + permits.available_permits();
        drop(permit);
        match worker.queue.claim(request.clone().max(free)).await {
            Ok(tasks) if tasks.is_empty() && drain && attempts.is_empty() && is_drained(worker).await? => return Ok(()),
            Ok(tasks) => {
                pause = Duration::from_millis(50);
                for task in tasks {
                    start(shared, permits, attempts, task);
                }
            }
            Err(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE);
            }
        }
    }
}

/// Starts an attempt. Only this loop takes permits, and it claimed no more than were free, so one is there.
fn start(shared: &Arc<Shared>, permits: &Arc<Semaphore>, attempts: &TaskTracker, task: ClaimedTask) {
    let permit = Arc::clone(permits).try_acquire_owned();
    let (shared, task) = (Arc::clone(shared), Arc::new(task));
    let cancel = shared.halt.child_token();
    shared.running.begin(&task, cancel.clone());
    attempts.spawn(async move {
        attempt::live(&shared, task, cancel).await;
        drop(permit);
    });
}

/// Whether no task of our names waits for an instant or runs elsewhere.
async fn is_drained(worker: &Worker) -> Result<bool> {
    for name in worker.handlers.keys() {
        for state in [StateKind::Scheduled, StateKind::Ready, StateKind::InFlight] {
            let mut filter = Filter::state(state).name(Arc::clone(name)).limit(1);
            loop {
                let page = worker.queue.list(filter.clone()).await?;
                if !page.tasks.is_empty() {
                    return Ok(false);
                }
                match page.next {
                    Some(next) => filter = filter.after(Some(next)),
                    None => break,
                }
            }
        }
    }
    Ok(true)
}
