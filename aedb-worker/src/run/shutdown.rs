//! Shutdown: attempts are asked, then dropped, then given back, each in its time, so that a stop ends whatever handlers do.

use std::time::Duration;

use aedb_queue::Decision;
use tokio::time::{sleep, timeout};

use super::Shared;

/// How long a stop waits, after the grace, for what was told to end, and then once more for what was given back over its head.
const LAST: Duration = Duration::from_millis(400);

/// Lets attempts finish for the grace, then drops them, then gives back what cannot be dropped.
pub(super) async fn stop(shared: &Shared) {
    let grace = shared.parts.grace;
    shared.running.all().iter().for_each(|entry| entry.ask(grace));
    tokio::select! {
        biased;
        () = shared.running.emptied() => return,
        () = sleep(grace) => {}
        () = shared.control.abandon.cancelled() => {}
    }
    shared.running.all().iter().for_each(|entry| entry.abort());
    if timeout(LAST, shared.running.emptied()).await.is_ok() {
        return;
    }
    for entry in shared.running.all() {
        if entry.is_lost() {
            shared.running.end(&entry);
        } else {
            shared.settles.push(&entry, Decision::Release);
        }
    }
    let _ = timeout(LAST, shared.running.emptied()).await;
}
