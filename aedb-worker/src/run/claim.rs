//! The claim loop: a permit first, then a claim, so that nothing is leased that cannot start now.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{ClaimRequest, ClaimedTask, ErrorKind, Filter, LeaseLength, Result, StateKind};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Running, Stop, StopOnDrop, attempt, heartbeat, sweep};
use crate::worker::Worker;

/// How long one claim waits for work; the loop looks around in between.
const WAIT: Duration = Duration::from_secs(1);
/// The same when draining, where an empty queue means the end.
const DRAIN_WAIT: Duration = Duration::from_millis(50);
/// The longest pause after claims that failed.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a stop waits, after the grace, for what was forced to end. A handler that blocks its thread cannot be; its
/// lease runs out.
const LAST: Duration = Duration::from_secs(1);

/// What all parts of a running worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) worker: Worker,
    pub(crate) running: Running,
    pub(crate) stop: Stop,
}

pub(crate) async fn run(worker: Worker, stop: impl Future<Output = ()>, drain: bool) -> Result<()> {
    let permits = Arc::new(Semaphore::new(worker.concurrency));
    let shared = Arc::new(Shared { worker, running: Running::default(), stop: Stop::default() });
    let (attempts, services, over) = (TaskTracker::new(), TaskTracker::new(), CancellationToken::new());
    let (_over, _stop) = (over.clone().drop_guard(), StopOnDrop(shared.stop.clone()));
    services.spawn(heartbeat::beat(Arc::clone(&shared), over.clone()));
    services.spawn(sweep::sweep(Arc::clone(&shared), over.clone()));
    let claimed = tokio::select! {
        () = stop => Ok(()),
        ended = claim_loop(&shared, &permits, &attempts, drain) => ended,
    };
    attempts.close();
    shared.stop.ask();
    if timeout(shared.worker.grace, attempts.wait()).await.is_err() {
        shared.stop.force();
        let _ = timeout(LAST, attempts.wait()).await;
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
            Err(error) if is_final(error.kind()) => return Err(error),
            Err(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE);
            }
        }
    }
}

/// Whether the same claim can never be served: then the worker ends and says why, instead of waiting for ever.
fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::TooLarge | ErrorKind::PermissionDenied)
}

/// Starts an attempt. Only this loop takes permits, and it claimed no more than were free, so one is there.
fn start(shared: &Arc<Shared>, permits: &Arc<Semaphore>, attempts: &TaskTracker, task: ClaimedTask) {
    let permit = Arc::clone(permits).try_acquire_owned();
    let (shared, task) = (Arc::clone(shared), Arc::new(task));
    let stop = shared.stop.of_one();
    shared.running.begin(&task, stop.clone());
    attempts.spawn(async move {
        attempt::live(&shared, task, stop).await;
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
