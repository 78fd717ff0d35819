//! A worker: what it claims, what it runs, and how it ends.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{Db, Queue, Result, Scope};

use crate::builder::WorkerBuilder;
use crate::graph::Graph;
use crate::handler::Registry;
use crate::layer::Layer;
use crate::run::{self, Control, Line, Mode, WorkerHandle};
use crate::state::States;

/// Claims and runs the tasks of some queues.
///
/// Dropping a running worker's future stops it as if the grace were over.
#[derive(Debug)]
pub struct Worker {
    parts: Parts,
    control: Arc<Control>,
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) scope: Scope,
    /// At least one.
    pub(crate) lines: Vec<Line>,
    pub(crate) strict: bool,
    pub(crate) registry: Registry,
    pub(crate) states: Arc<States>,
    pub(crate) layers: Vec<Arc<dyn Layer>>,
    pub(crate) owner: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) prefetch: usize,
    pub(crate) lease: Duration,
    pub(crate) grace: Duration,
    pub(crate) poll: Duration,
    pub(crate) checkpoint_every: Duration,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.registry.keys().collect();
        f.debug_struct("Parts")
            .field("lines", &self.lines)
            .field("handlers", &names)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl Parts {
    pub(crate) fn line(&self, line: usize) -> &Queue {
        #[expect(clippy::indexing_slicing, reason = "lines are numbered by this very list, which never changes")]
        &self.lines[line].queue
    }

    /// The shortest lease of any handler: heartbeats keep pace with it.
    pub(crate) fn shortest_lease(&self) -> Duration {
        let own = self.registry.values().filter_map(|found| found.defaults.lease);
        own.fold(self.lease, Duration::min)
    }
}

impl Worker {
    /// A worker on the default scope of a database.
    pub fn builder(db: &Db) -> WorkerBuilder {
        Self::builder_in(db.default_scope())
    }

    /// A worker on a scope.
    pub fn builder_in(scope: Scope) -> WorkerBuilder {
        WorkerBuilder::new(scope)
    }

    pub(crate) fn new(parts: Parts) -> Self {
        let control = Arc::new(Control::new(parts.poll));
        Self { parts, control }
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Its tasks and their declared follow-ups.
    pub fn graph(&self) -> Graph {
        Graph::of(&self.parts.registry)
    }

    /// Steers the worker while it runs: shutdown, pause, health.
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle::new(Arc::clone(&self.control))
    }

    /// Runs until [`WorkerHandle::shutdown`].
    ///
    /// # Errors
    ///
    /// As [`Worker::run_until`].
    ///
    /// # Cancel safety
    ///
    /// As [`Worker::run_until`].
    pub async fn run(self) -> Result<()> {
        self.run_until(pending()).await
    }

    /// Runs until a future ends, then stops claiming, lets attempts finish for the grace, drops the rest and gives their tasks
    /// back, charged nothing. Within a second after the grace it returns, whatever the handlers do.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](aedb_queue::ErrorKind::PermissionDenied) without a grant, and
    /// [`ErrorKind::Unavailable`](aedb_queue::ErrorKind::Unavailable) if a part of the worker cannot be kept alive. Calls that fail because
    /// the store cannot serve are tried again, at least every 5 s; see [`WorkerHandle::health`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped run stops as if the grace were over, and its tasks are given back by the worker's own thread.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<()> {
        run::run(self.parts, self.control, Mode::Forever, stop).await
    }

    /// [Runs](Worker::run) as one future, for simulations: services and handlers are polled with it, waits go by tokio's clock, and
    /// jitter comes from dice with this seed. On a current-thread runtime that was started with its clock paused, and on a database that is
    /// [inline](aedb_queue::DbBuilder::inline), the same seeds give the same run. A future that is not polled is a process that is
    /// stopped; one that is dropped is a process that is killed.
    ///
    /// Handlers that block have no place in it: they run on the runtime's other threads.
    ///
    /// # Errors
    ///
    /// As [`Worker::run_until`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it ends at once and gives nothing back.
    #[cfg(feature = "simulation")]
    pub async fn run_simulated(self, seed: u64) -> Result<()> {
        run::simulated::run(self.parts, self.control, seed).await
    }

    /// Finishes everything that is due, with what becomes due meanwhile, and returns. Tasks that wait for an instant, and
    /// those that another worker runs, are left alone.
    ///
    /// # Errors
    ///
    /// As [`Worker::run_until`].
    ///
    /// # Cancel safety
    ///
    /// As [`Worker::run_until`].
    pub async fn drain(self) -> Result<()> {
        run::run(self.parts, self.control, Mode::Drain, pending()).await
    }
}
