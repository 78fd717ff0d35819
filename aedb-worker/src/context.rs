//! What a handler knows of its task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aedb_queue::{
    ClaimedTask, Error, ErrorKind, FencingToken, HeartbeatOutcome, Json, LeaseLength, Queue, Result, TaskId, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::run::Stop;

/// A task under a lease, as its handler sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TaskContext {
    task: Arc<ClaimedTask>,
    queue: Queue,
    lease: Duration,
    stop: Stop,
    told: Arc<AtomicBool>,
}

impl TaskContext {
    pub(crate) fn new(task: Arc<ClaimedTask>, queue: Queue, lease: Duration, stop: Stop) -> Self {
        Self { task, queue, lease, stop, told: Arc::default() }
    }

    /// The task's payload.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the payload does not have the form of `T`.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T> {
        self.task.payload.to()
    }

    /// The last progress that this or an earlier attempt recorded when it was claimed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it does not have the form of `T`.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.task.progress.as_ref().map(Json::to).transpose()
    }

    /// Records progress, durably and under the lease; a later attempt starts with it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LeaseLost`] if the lease is lost; the attempt should stop.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may still record.
    pub async fn checkpoint<T: Serialize + ?Sized>(&self, progress: &T) -> Result<()> {
        let progress = Json::of(progress)?;
        match self.queue.heartbeat(&self.task, LeaseLength::of(self.lease), Some(progress)).await? {
            HeartbeatOutcome::Extended(_) => Ok(()),
            HeartbeatOutcome::LeaseLost(_) => {
                self.stop.force();
                Err(Error::new(ErrorKind::LeaseLost, "the lease of this attempt is lost; nothing was recorded"))
            }
        }
    }

    /// The task's id.
    pub fn id(&self) -> TaskId {
        self.task.id
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        &self.task.name
    }

    /// The task's queue.
    pub fn queue(&self) -> &str {
        &self.task.queue
    }

    /// Which attempt this is, from 1. Attempts that were interrupted do not count.
    pub fn attempt(&self) -> u32 {
        self.task.counters.attempts
    }

    /// How often the task was handed to a worker.
    pub fn deliveries(&self) -> u32 {
        self.task.counters.deliveries
    }

    /// The token of this lease.
    pub fn token(&self) -> FencingToken {
        self.task.token
    }

    /// When the lease ran out if nobody extended it; the worker does.
    pub fn deadline(&self) -> Timestamp {
        self.task.deadline
    }

    /// A key for a step that has effects outside: the same in every attempt of this task, and in no other task's.
    pub fn idempotency_key(&self, step: &str) -> String {
        format!("{}/{}/{step}", self.task.queue, self.task.id)
    }

    /// Ends when the attempt should stop: the lease is lost, the task cancelled, or the worker shuts down.
    ///
    /// In a shutdown the attempt has the worker's grace to save a checkpoint or to finish. An error that it returns after
    /// this is an interruption, not a failure: the task is given back, charged nothing, unless the error is fatal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cancelled(&self) {
        self.stop.asked().await;
        self.told.store(true, Ordering::Relaxed);
    }

    /// Whether the handler has learned that it should stop.
    pub(crate) fn was_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }
}
