//! A running worker: it claims, attempts, keeps leases alive, settles and sweeps; one file each.
//!
//! Handlers run on the application's runtime. Everything else runs on one thread and runtime of the worker's own, so a
//! handler that blocks its thread delays only itself.
//!
//! ```text
//!            claim ──> attempt ──> settle          a slot is taken before the claim and freed by the settle
//!                         ^
//!   heartbeat ── extends, asks to stop, drops      sweep, presence: upkeep
//! ```

pub(crate) mod attempt;
mod claim;
mod control;
mod entry;
mod heartbeat;
mod lines;
pub(crate) mod monotonic;
pub(crate) mod pause;
mod presence;
pub(crate) mod settle;
mod shutdown;
mod supervise;
mod sweep;

use std::future::Future;
use std::sync::Arc;
use std::thread;

use aedb_queue::{Error, ErrorKind, Queue, Result, TaskId, Timestamp};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::events;
use crate::layer::Dead;
use crate::worker::Parts;

pub(crate) use control::Control;
pub use control::{Health, WorkerHandle, WorkerState};
pub(crate) use entry::{Entry, Room, Running};
pub(crate) use lines::Line;
pub(crate) use presence::host;
use settle::Settles;
use supervise::supervise;

/// What all parts of a running worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) parts: Parts,
    pub(crate) control: Arc<Control>,
    pub(crate) running: Running,
    pub(crate) settles: Settles,
    /// One for each task that may be claimed.
    pub(crate) slots: Arc<Semaphore>,
    /// One for each handler that may run.
    pub(crate) turns: Arc<Semaphore>,
    /// The application's runtime.
    attempts: Handle,
}

impl Shared {
    /// The queue that an attempt's task came from.
    pub(crate) fn line(&self, entry: &Entry) -> &Queue {
        self.parts.line(entry.line)
    }

    /// Tells the layers of a death, on the application's runtime.
    pub(crate) fn died(&self, dead: Dead) {
        if self.parts.layers.is_empty() {
            return;
        }
        let layers = self.parts.layers.clone();
        self.attempts.spawn(async move {
            for layer in layers {
                layer.on_dead(&dead).await;
            }
        });
    }

    /// The same for tasks that a sweep found dead.
    pub(crate) async fn bury(&self, queue: &Queue, ids: &[TaskId]) {
        for id in ids {
            let Ok(Some(record)) = queue.get(*id).await else { continue };
            let error = Arc::from("its workers were lost as often as allowed");
            self.died(Dead { queue: queue.name().into(), id: *id, name: record.name, error });
        }
    }
}

/// How a run ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Never.
    Forever,
    /// When nothing is due and nothing runs.
    Drain,
}

/// Runs a worker until a future ends, or it ends by itself.
pub(crate) async fn run(parts: Parts, control: Arc<Control>, mode: Mode, stop: impl Future<Output = ()>) -> Result<()> {
    let attempts = application_runtime()?;
    let (slots, turns) = (parts.concurrency + parts.prefetch, parts.concurrency);
    let shared = Arc::new(Shared {
        slots: Arc::new(Semaphore::new(slots)),
        turns: Arc::new(Semaphore::new(turns)),
        control: Arc::clone(&control),
        running: Running::default(),
        settles: Settles::default(),
        attempts,
        parts,
    });
    on_own_thread("aedb-worker", serve(shared, mode), &control, stop).await
}

/// The runtime that handlers run on.
pub(crate) fn application_runtime() -> Result<Handle> {
    Handle::try_current().map_err(|error| {
        Error::invalid("handlers run on a tokio runtime; start one and run this on it").caused_by(error)
    })
}

/// Runs a service on a thread and runtime of its own until it ends. It is told to stop when a future ends, and at once if
/// nobody waits for it any more.
pub(crate) async fn on_own_thread(
    name: &str,
    service: impl Future<Output = Result<()>> + Send + 'static,
    control: &Control,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let _abandon = control.abandon.clone().drop_guard();
    let mut ended = start_thread(name, service)?;
    tokio::select! {
        () = stop => control.stop.cancel(),
        ended = &mut ended => return ended.unwrap_or_else(|_| Err(thread_died())),
    }
    ended.await.unwrap_or_else(|_| Err(thread_died()))
}

fn start_thread(
    name: &str,
    service: impl Future<Output = Result<()>> + Send + 'static,
) -> Result<oneshot::Receiver<Result<()>>> {
    let fails = |error: std::io::Error| {
        Error::new(ErrorKind::Unavailable, "a thread for the service could not be started").caused_by(error)
    };
    let own = Builder::new_current_thread().enable_time().build().map_err(fails)?;
    let (tell, ended) = oneshot::channel();
    let serve = move || {
        let _ = tell.send(own.block_on(service));
    };
    thread::Builder::new().name(name.into()).spawn(serve).map_err(fails)?;
    Ok(ended)
}

fn thread_died() -> Error {
    Error::new(ErrorKind::Unavailable, "the service's own thread has died; its leases run out by themselves")
}

async fn serve(shared: Arc<Shared>, mode: Mode) -> Result<()> {
    events::worker_started(&shared.parts.owner);
    let (over, mut services) = (CancellationToken::new(), JoinSet::new());
    start(&mut services, &shared, &over);
    let ended = tokio::select! {
        () = shared.control.stop.cancelled() => Ok(()),
        () = shared.control.abandon.cancelled() => Ok(()),
        ended = supervise("claim loop", || claim::claim(&shared, mode)) => ended,
        failed = services.join_next() => failed.map_or(Ok(()), |joined| joined.unwrap_or_else(|_| Err(thread_died()))),
    };
    shared.control.set(WorkerState::Stopping);
    shutdown::stop(&shared).await;
    over.cancel();
    while services.join_next().await.is_some() {}
    shared.control.set(WorkerState::Stopped);
    events::worker_stopped(&shared.parts.owner);
    ended
}

/// Starts all services but the claim loop, each supervised.
fn start(services: &mut JoinSet<Result<()>>, shared: &Arc<Shared>, over: &CancellationToken) {
    macro_rules! service {
        ($name:literal, $run:path) => {{
            let (shared, over) = (Arc::clone(shared), over.clone());
            services.spawn(async move { supervise($name, || $run(&shared, &over)).await });
        }};
    }
    service!("heartbeat", heartbeat::beat);
    service!("settle", settle::settle);
    service!("sweep", sweep::sweep);
    service!("presence", presence::announce);
}

impl Parts {
    /// The present instant on the database's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.line(0).now()
    }
}
