//! Layers: what the application does around every attempt.

use std::sync::Arc;

use aedb_queue::TaskId;
use async_trait::async_trait;

use crate::context::TaskContext;
use crate::handler::{AnyHandler, Decided};

/// Wraps every attempt of a worker, for timing, context or alarms.
///
/// ```
/// use aedb_worker::{Dead, Decided, Layer, Next, TaskContext, async_trait};
///
/// struct Alarm;
///
/// #[async_trait]
/// impl Layer for Alarm {
///     async fn around(&self, cx: TaskContext, next: Next<'_>) -> Decided {
///         // before
///         let decided = next.run(cx).await;
///         // after
///         decided
///     }
///
///     async fn on_dead(&self, dead: &Dead) {
///         eprintln!("{} {} is dead: {}", dead.name, dead.id, dead.error);
///     }
/// }
/// ```
#[async_trait]
pub trait Layer: Send + Sync + 'static {
    /// Runs around an attempt; what it returns is what the attempt ends with. `next` can be run once, so that no layer
    /// runs a handler again. An attempt that is stopped by force is dropped here.
    async fn around(&self, cx: TaskContext, next: Next<'_>) -> Decided {
        next.run(cx).await
    }

    /// Runs after this worker's settle or sweep has made a task dead. A worker that dies in between never calls it; for work
    /// that must happen, let the handler decide it with effects or a follow-up.
    async fn on_dead(&self, dead: &Dead) {
        let _ = dead;
    }
}

/// A task that has died.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Dead {
    /// Its queue.
    pub queue: Arc<str>,
    /// The task.
    pub id: TaskId,
    /// Its handler's name.
    pub name: Arc<str>,
    /// Why.
    pub error: Arc<str>,
}

/// The rest of the way to the handler: the layers within, then the handler itself.
#[must_use = "an attempt that is not run ends with what the layer returns"]
pub struct Next<'a> {
    layers: &'a [Arc<dyn Layer>],
    handler: &'a dyn AnyHandler,
}

impl std::fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Next({} layers)", self.layers.len())
    }
}

impl<'a> Next<'a> {
    pub(crate) fn new(layers: &'a [Arc<dyn Layer>], handler: &'a dyn AnyHandler) -> Self {
        Self { layers, handler }
    }

    /// Goes on.
    pub async fn run(self, cx: TaskContext) -> Decided {
        match self.layers.split_first() {
            Some((layer, within)) => layer.around(cx, Next { layers: within, handler: self.handler }).await,
            None => self.handler.run(cx).await,
        }
    }
}
