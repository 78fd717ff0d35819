//! Where attempts run: on the application's runtime, or, in a simulation, in the worker's own future.

use std::future::Future;

#[cfg(feature = "simulation")]
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
#[cfg(feature = "simulation")]
use tokio::sync::mpsc::UnboundedSender;

#[derive(Debug)]
pub(crate) enum Attempts {
    /// On a runtime.
    On(Handle),
    /// Wherever the other end of this polls them.
    #[cfg(feature = "simulation")]
    Beside(UnboundedSender<BoxFuture<'static, ()>>),
}

impl Attempts {
    pub(crate) fn spawn(&self, attempt: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::On(runtime) => drop(runtime.spawn(attempt)),
            // If the other end is gone, so is the worker, and the attempt is dropped like all others.
            #[cfg(feature = "simulation")]
            Self::Beside(nursery) => drop(nursery.send(Box::pin(attempt))),
        }
    }
}
