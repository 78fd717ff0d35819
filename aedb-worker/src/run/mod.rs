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
mod attempts;
pub(crate) mod chance;
mod claim;
mod control;
mod entry;
mod heartbeat;
mod lines;
pub(crate) mod monotonic;
pub(crate) mod pause;
mod presence;
#[cfg(all(test, shuttle))]
mod schedules;
pub(crate) mod settle;
mod shutdown;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;
mod supervise;
mod sweep;
mod sync;

use std::future::Future;
use std::sync::Arc;
use std::thread;

use aedb_queue::{Error, ErrorKind, Queue, Result, TaskId, Timestamp};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::events;
use crate::layer::Dead;
use crate::worker::Parts;

use attempts::Attempts;
pub(crate) use claim::is_final;
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
    /// Where handlers run.
    attempts: Attempts,
}

impl Shared {
    fn new(parts: Parts, control: &Arc<Control>, attempts: Attempts) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(parts.concurrency + parts.prefetch)),
            turns: Arc::new(Semaphore::new(parts.concurrency)),
            control: Arc::clone(control),
            running: Running::default(),
            settles: Settles::default(),
            attempts,
            parts,
        }
    }

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
    let shared = Arc::new(Shared::new(parts, &control, Attempts::On(application_runtime()?)));
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
        biased;
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
    let over = CancellationToken::new();
    let mut services = services(&shared, &over);
    let ended = tokio::select! {
        biased;
        () = shared.control.stop.cancelled() => Ok(()),
        () = shared.control.abandon.cancelled() => Ok(()),
        Some(failed) = services.next() => failed,
        ended = supervise("claim loop", || claim::claim(&shared, mode)) => ended,
    };
    shared.control.set(WorkerState::Stopping);
    meanwhile(&mut services, shutdown::stop(&shared)).await;
    over.cancel();
    while services.next().await.is_some() {}
    shared.control.set(WorkerState::Stopped);
    events::worker_stopped(&shared.parts.owner);
    ended
}

/// What goes on beside the claim loop.
type Services<'a> = FuturesUnordered<BoxFuture<'a, Result<()>>>;

/// All services but the claim loop, each supervised.
fn services<'a>(shared: &'a Shared, over: &'a CancellationToken) -> Services<'a> {
    let services = Services::new();
    services.push(supervise("heartbeat", move || heartbeat::beat(shared, over)).boxed());
    services.push(supervise("settle", move || settle::settle(shared, over)).boxed());
    services.push(supervise("sweep", move || sweep::sweep(shared, over)).boxed());
    services.push(supervise("presence", move || presence::announce(shared, over)).boxed());
    services
}

/// Does some work while the services go on.
async fn meanwhile(services: &mut Services<'_>, work: impl Future<Output = ()>) {
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            () = &mut work => return,
            Some(_) = services.next() => {}
        }
    }
}

impl Parts {
    /// The present instant on the database's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.line(0).now()
    }
}
