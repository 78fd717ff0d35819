//! What a handler knows of its task, and what it adds to the commit that ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedb_queue::{
    AppKeys, ClaimedTask, Effects, Error, ErrorKind, FencingToken, HeartbeatOutcome, Json, LeaseLength, NewTask, Queue,
    Result, Settlement, TaskId, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::outcome::Outcome;
use crate::run::{Entry, settle};
use crate::state::States;
use crate::version;

/// A task under a lease, as its handler sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TaskContext(Arc<Attempt>);

#[derive(Debug)]
struct Attempt {
    task: Arc<ClaimedTask>,
    states: Arc<States>,
    asked: CancellationToken,
    told: AtomicBool,
    effects: Mutex<Effects>,
    progress: Mutex<Vec<Json>>,
    keeper: Keeper,
}

/// Where checkpoints go.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// To the queue, under the lease, or to the entry while checkpoints are throttled.
    Queue { queue: Queue, kv: AppKeys, lease: Duration, entry: Option<Arc<Entry>> },
    /// Nowhere: the context was made by hand, and remembers them.
    Nobody,
}

impl TaskContext {
    pub(crate) fn new(task: Arc<ClaimedTask>, states: Arc<States>, asked: CancellationToken, keeper: Keeper) -> Self {
        let progress = Mutex::new(task.progress.iter().cloned().collect());
        let (told, effects) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Attempt { task, states, asked, told, effects, progress, keeper }))
    }

    /// The task's payload.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the payload does not have the form of `T`.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T> {
        version::input(&self.0.task.payload).and_then(|payload| payload.to()).map_err(|error| {
            Error::invalid(format!("the payload does not fit the input of {}: {error}", self.name())).caused_by(error)
        })
    }

    /// The last progress that this or an earlier attempt recorded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it does not have the form of `T`.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.recorded().last().map(Json::to).transpose()
    }

    /// Records progress, durably and under the lease; a later attempt starts with it, whatever ends this one.
    ///
    /// If the worker throttles checkpoints, one that comes too soon is kept in memory and written when its time has come,
    /// and at the latest with the attempt's end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LeaseLost`] if the lease is lost; the attempt should stop. [`ErrorKind::TooLarge`] over 256 KiB.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may still record.
    pub async fn checkpoint<T: Serialize + ?Sized>(&self, progress: &T) -> Result<()> {
        let progress = Json::of(progress)?;
        if let Keeper::Queue { queue, lease, entry, .. } = &self.0.keeper
            && !entry.as_ref().is_some_and(|entry| entry.throttles(&progress))
            && let HeartbeatOutcome::LeaseLost(_) =
                queue.heartbeat(&self.0.task, LeaseLength::of(*lease), Some(progress.clone())).await?
        {
            self.0.asked.cancel();
            return Err(Error::new(ErrorKind::LeaseLost, "the lease of this attempt is lost; nothing was recorded"));
        }
        self.recorded().push(progress);
        Ok(())
    }

    /// The checkpoints that a context made by hand has seen, oldest first, after the progress that it began with. Of an attempt that
    /// a worker runs, only the last one is kept.
    pub fn checkpoints(&self) -> Vec<Json> {
        self.recorded().kept.clone()
    }

    /// Every checkpoint, oldest first, after what the attempt began with. While the attempt runs, only the last one is kept.
    fn recorded(&self) -> Recorded<'_> {
        Recorded { kept: lock(&self.0.progress), all: matches!(self.0.keeper, Keeper::Nobody) }
    }

    /// Writes and follow-ups that ride on the commit which completes the task; a failure drops them.
    ///
    /// ```
    /// # fn in_a_handler(cx: aedb_worker::TaskContext) {
    /// cx.effects().put("order:7", "paid").delete("cart:7");
    /// # }
    /// ```
    pub fn effects(&self) -> EffectsOf<'_> {
        EffectsOf(&self.0.effects)
    }

    /// Enqueues a follow-up with the commit that completes the task. It carries this task's trace context, unless it has one.
    pub fn enqueue(&self, queue: &str, task: NewTask) {
        self.effects().enqueue(queue, task);
    }

    /// What the application added with `.state(value)`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it added nothing of this type.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.0.states.get()
    }

    /// The task's id.
    pub fn id(&self) -> TaskId {
        self.0.task.id
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        &self.0.task.name
    }

    /// The task's queue.
    pub fn queue(&self) -> &str {
        &self.0.task.queue
    }

    /// Which attempt this is, from 1. Attempts that were interrupted do not count.
    pub fn attempt(&self) -> u32 {
        self.0.task.counters.attempts
    }

    /// How often the task was handed to a worker.
    pub fn deliveries(&self) -> u32 {
        self.0.task.counters.deliveries
    }

    /// The token of this lease.
    pub fn token(&self) -> FencingToken {
        self.0.task.token
    }

    /// When the lease ran out if nobody extended it; the worker does.
    pub fn deadline(&self) -> Timestamp {
        self.0.task.deadline
    }

    /// When the task was enqueued.
    pub fn enqueued(&self) -> Timestamp {
        self.0.task.enqueued
    }

    /// A value that travels with the task, for example `traceparent`.
    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.0.task.metadata.iter().find(|(has, _)| &**has == name).map(|(_, value)| &**value)
    }

    /// A key for a step that has effects outside: the same in every attempt of this task, and in no other task's.
    pub fn idempotency_key(&self, step: &str) -> String {
        format!("{}/{}/{step}", self.queue(), self.id())
    }

    /// Ends when the attempt should stop: the lease is about to be lost, the task was cancelled, or the worker shuts down.
    ///
    /// In a shutdown the attempt has the worker's grace to save a checkpoint or to finish. An error that it returns after
    /// this is an interruption, not a failure: the task is given back, charged nothing, unless the error is fatal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cancelled(&self) {
        self.0.asked.cancelled().await;
        self.0.told.store(true, Ordering::Relaxed);
    }

    /// Whether the attempt should stop: the same for a function that blocks and looks now and then.
    pub fn is_cancelled(&self) -> bool {
        let asked = self.0.asked.is_cancelled();
        if asked {
            self.0.told.store(true, Ordering::Relaxed);
        }
        asked
    }

    /// Whether the handler has learned that it should stop.
    pub(crate) fn was_told(&self) -> bool {
        self.0.told.load(Ordering::Relaxed)
    }

    pub(crate) fn task(&self) -> &Arc<ClaimedTask> {
        &self.0.task
    }

    /// The application's keys; `None` if the context was made by hand.
    pub(crate) fn kv(&self) -> Option<AppKeys> {
        match &self.0.keeper {
            Keeper::Queue { kv, .. } => Some(kv.clone()),
            Keeper::Nobody => None,
        }
    }

    /// An outcome as an item for the store's own settle inside of the application's SQL transaction: the acknowledgement commits with the
    /// application's rows, or never. It takes the [effects](TaskContext::effects) that were gathered.
    ///
    /// Return the same outcome afterwards; the worker is told that it was applied already. If the transaction was rolled back,
    /// return an error, and if nobody knows, too: the worker asks, and a task that is done stays done.
    ///
    /// ```
    /// use aedb_queue::Settlement;
    /// use aedb_worker::{Outcome, TaskContext};
    ///
    /// fn in_a_handler(cx: &TaskContext) -> aedb_queue::Result<Settlement> {
    ///     // store.settle_in(&mut txn, &queue, vec![settlement]).await?; txn.commit().await?;
    ///     cx.settlement(Outcome::done("paid"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the result or a follow-up cannot be written as JSON.
    pub fn settlement<T: Serialize>(&self, outcome: Outcome<T>) -> Result<Settlement> {
        let decision = settle::decision(self, Ok(outcome.into_json()?), Timestamp::from_micros(0));
        Ok(Settlement::new(&self.0.task, decision))
    }

    /// Takes what the handler added to the commit.
    pub(crate) fn take_effects(&self) -> Effects {
        std::mem::take(&mut *lock(&self.0.effects))
    }
}

/// The checkpoints of an attempt, locked.
struct Recorded<'a> {
    kept: MutexGuard<'a, Vec<Json>>,
    all: bool,
}

impl Recorded<'_> {
    fn last(&self) -> Option<&Json> {
        self.kept.last()
    }

    fn push(&mut self, progress: Json) {
        if !self.all {
            self.kept.clear();
        }
        self.kept.push(progress);
    }
}

/// What a handler adds to the commit that completes its task.
#[derive(Debug)]
pub struct EffectsOf<'a>(&'a Mutex<Effects>);

impl EffectsOf<'_> {
    fn add(&self, add: impl FnOnce(Effects) -> Effects) -> &Self {
        let mut effects = lock(self.0);
        *effects = add(std::mem::take(&mut effects));
        self
    }

    /// Writes an application key.
    pub fn put(&self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &Self {
        self.add(|effects| effects.put(key, value))
    }

    /// Deletes an application key.
    pub fn delete(&self, key: impl Into<Vec<u8>>) -> &Self {
        self.add(|effects| effects.delete(key))
    }

    /// Fails the commit unless a key is absent: then nothing is written, and the attempt has failed.
    pub fn assert_absent(&self, key: impl Into<Vec<u8>>) -> &Self {
        self.add(|effects| effects.assert_absent(key))
    }

    /// Fails the commit unless a key has this value.
    pub fn assert_value(&self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &Self {
        self.add(|effects| effects.assert_value(key, value))
    }

    /// Enqueues a task.
    pub fn enqueue(&self, queue: &str, task: NewTask) -> &Self {
        self.add(|effects| effects.enqueue(queue, task))
    }

    /// What was added so far, to look at.
    pub fn list(&self) -> Effects {
        lock(self.0).clone()
    }

    /// Adds effects made elsewhere.
    pub fn and(&self, others: Effects) -> &Self {
        self.add(|effects| effects.and(others))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
