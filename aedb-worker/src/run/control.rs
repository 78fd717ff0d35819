//! A worker from outside: stop it, pause it, ask how it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::monotonic;

/// What a worker does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// It was built, and does not run yet.
    Idle,
    /// It asks for tasks.
    Polling,
    /// All its slots are taken.
    Busy,
    /// It was told to pause.
    Paused,
    /// Its claims fail; it tries again.
    Failing,
    /// It was told to stop, and lets attempts finish.
    Stopping,
    /// It has ended.
    Stopped,
}

/// How a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// What it does.
    pub state: WorkerState,
    /// How long ago its claim loop last gave a sign of life.
    pub silent: Duration,
    /// False while the claim loop is not polling: use it for readiness. A worker whose slots are all taken is ready.
    pub ready: bool,
}

/// How the parts of a worker, and the application, steer it.
#[derive(Debug)]
pub(crate) struct Control {
    /// Stop, with grace.
    pub(crate) stop: CancellationToken,
    /// Stop when nothing is due.
    pub(crate) drain: CancellationToken,
    /// Stop now: nobody waits for the worker any more.
    pub(crate) abandon: CancellationToken,
    pause: watch::Sender<bool>,
    pulse: Mutex<(WorkerState, Instant)>,
    /// A claim loop that polls gives a sign of life at least this often.
    alive_within: Duration,
}

impl Control {
    pub(crate) fn new(poll: Duration) -> Self {
        Self {
            stop: CancellationToken::new(),
            drain: CancellationToken::new(),
            abandon: CancellationToken::new(),
            pause: watch::Sender::new(false),
            pulse: Mutex::new((WorkerState::Idle, monotonic::now())),
            alive_within: poll * 2 + Duration::from_secs(6),
        }
    }

    fn pulse(&self) -> MutexGuard<'_, (WorkerState, Instant)> {
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, state: WorkerState) {
        *self.pulse() = (state, monotonic::now());
    }

    /// Ends at once, or when the worker is resumed.
    pub(crate) async fn resumed(&self) {
        let mut pause = self.pause.subscribe();
        if *pause.borrow() {
            self.set(WorkerState::Paused);
            // The sender lives as long as this does.
            let _ = pause.wait_for(|paused| !paused).await;
        }
    }

    /// Ends when the worker is paused.
    pub(crate) async fn paused(&self) {
        let _ = self.pause.subscribe().wait_for(|paused| *paused).await;
    }

    fn health(&self) -> Health {
        let (state, at) = *self.pulse();
        let silent = monotonic::now().saturating_duration_since(at);
        let ready = match state {
            WorkerState::Polling => silent <= self.alive_within,
            WorkerState::Busy => true,
            _ => false,
        };
        Health { state, silent, ready }
    }
}

/// Steers a worker, from anywhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkerHandle(Arc<Control>);

impl WorkerHandle {
    pub(crate) fn new(control: Arc<Control>) -> Self {
        Self(control)
    }

    /// Tells the worker to stop, with its grace: `run` returns when it has.
    pub fn shutdown(&self) {
        self.0.stop.cancel();
    }

    /// Tells the worker to stop when it has finished everything that is due, with what becomes due meanwhile: `run` returns then.
    pub fn drain(&self) {
        self.0.drain.cancel();
    }

    /// Claims nothing more until resumed; what runs goes on. Only this worker: [`Queue::pause`](aedb_queue::Queue::pause) stops all.
    pub fn pause(&self) {
        self.0.pause.send_replace(true);
    }

    /// Claims again.
    pub fn resume(&self) {
        self.0.pause.send_replace(false);
    }

    /// How the worker is.
    pub fn health(&self) -> Health {
        self.0.health()
    }
}
