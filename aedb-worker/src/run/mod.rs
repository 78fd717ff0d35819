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

/// The attempts that run now, by task and token: the same task may come back while an old attempt still ends.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<BTreeMap<(TaskId, FencingToken), Entry>>);

#[derive(Debug, Clone)]
struct Entry {
    task: Arc<ClaimedTask>,
    cancel: CancellationToken,
}

impl Running {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<(TaskId, FencingToken), Entry>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn begin(&self, task: &Arc<ClaimedTask>, cancel: CancellationToken) {
        let entry = Entry { task: Arc::clone(task), cancel };
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
            entry.cancel.cancel();
        }
    }
}
