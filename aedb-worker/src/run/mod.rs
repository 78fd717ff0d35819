//! A running worker: it claims, attempts, keeps leases alive, settles and sweeps; one file each.

pub(crate) mod attempt;
pub(crate) mod claim;
pub(crate) mod heartbeat;
pub(crate) mod settle;
pub(crate) mod sweep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aedb_queue::{ClaimedTask, FencingToken, TaskId};
use tokio_util::sync::CancellationToken;

/// How attempts are stopped: first asked, so that they can save what they have, then forced.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    asked: CancellationToken,
    forced: CancellationToken,
}

impl Stop {
    /// The same for one attempt: it stops with all, or alone.
    pub(crate) fn of_one(&self) -> Self {
        Self { asked: self.asked.child_token(), forced: self.forced.child_token() }
    }

    pub(crate) fn ask(&self) {
        self.asked.cancel();
    }

    pub(crate) fn force(&self) {
        self.asked.cancel();
        self.forced.cancel();
    }

    pub(crate) async fn asked(&self) {
        self.asked.cancelled().await;
    }

    pub(crate) async fn forced(&self) {
        self.forced.cancelled().await;
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.forced.is_cancelled()
    }
}

/// Forces all attempts to stop when it goes, so that a run that is dropped half way leaves nothing running.
#[derive(Debug)]
pub(crate) struct StopOnDrop(pub(crate) Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.force();
    }
}

/// The attempts that run now, by task and token: the same task may come back while an old attempt still ends.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<BTreeMap<(TaskId, FencingToken), Entry>>);

#[derive(Debug, Clone)]
struct Entry {
    task: Arc<ClaimedTask>,
    stop: Stop,
}

impl Running {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<(TaskId, FencingToken), Entry>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn begin(&self, task: &Arc<ClaimedTask>, stop: Stop) {
        let entry = Entry { task: Arc::clone(task), stop };
        self.with(|running| running.insert((task.id, task.token), entry));
    }

    pub(crate) fn end(&self, task: &ClaimedTask) {
        self.with(|running| running.remove(&(task.id, task.token)));
    }

    pub(crate) fn tasks(&self) -> Vec<Arc<ClaimedTask>> {
        self.with(|running| running.values().map(|entry| Arc::clone(&entry.task)).collect())
    }

    /// Tells one attempt to stop.
    pub(crate) fn cancel(&self, task: &ClaimedTask) {
        if let Some(entry) = self.with(|running| running.get(&(task.id, task.token)).cloned()) {
            entry.stop.force();
        }
    }
}
