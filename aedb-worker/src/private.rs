//! What generated code names. Not part of the interface: it may change in any release.

use std::panic::resume_unwind;

pub use aedb_queue::{Backoff, Json};
#[cfg(feature = "collect")]
pub use inventory;

pub use crate::__collect as collect;
pub use crate::call::{Call, Enqueue, EnqueueAll, FollowUp, Target};
pub use crate::context::TaskContext;
pub use crate::defaults::Defaults;
pub use crate::error::TaskError;
pub use crate::extract::{Extractor, Needs, extractor};
pub use crate::graph::Edge;
pub use crate::handler::Handler;
pub use crate::input::{Asked, Fits, Input, NoInput, fits};
pub use crate::outcome::Outcome;
pub use crate::returned::{Attempt, Form, Otherwise, Returned, attempt, fails, failure, form};
#[cfg(feature = "collect")]
pub use crate::tasks::Collected;
pub use crate::wait::EnqueueAndWait;

use crate::version;

/// Runs a function that blocks on the runtime's pool for such. Its panic goes on here.
pub async fn blocking<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> T {
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(function)).await {
        Ok(returned) => returned,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Only a runtime that shuts down cancels it, and then nobody polls this any more.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The version of a task's input; 1 if it tells none.
pub fn version(cx: &TaskContext) -> u32 {
    version::of(cx)
}

/// The payload as it is.
///
/// # Errors
///
/// None that has been seen: what is in an envelope was JSON before.
pub fn payload(cx: &TaskContext) -> aedb_queue::Result<Json> {
    version::input(&cx.task().payload)
}

/// What an upgrade function returned.
///
/// # Errors
///
/// The function's own.
pub fn upgraded<T, E: std::fmt::Display>(input: Result<T, E>) -> Result<T, TaskError> {
    input.map_err(|error| TaskError::new(format!("the input of an older version could not be upgraded: {error:#}")))
}
