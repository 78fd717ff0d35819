//! What generated code names. Not part of the interface: it may change in any release.

use std::panic::resume_unwind;

pub use aedb_queue::{Backoff, Json};
pub use serde::de::DeserializeOwned;

pub use crate::call::{Call, Enqueue, FollowUp, Target, WaitError};
pub use crate::context::TaskContext;
pub use crate::error::TaskError;
pub use crate::extract::{Extractor, Needs, extractor};
pub use crate::graph::Edge;
pub use crate::handler::{Defaults, Handler};
pub use crate::outcome::Outcome;
pub use crate::returned::{AnyResult, ByDisplay, ByError, ByTaskError, ByValue, Returned, Value};

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
    cx.metadata(crate::handler::VERSION).and_then(|version| version.parse().ok()).unwrap_or(1)
}

/// The payload as it is.
pub fn payload(cx: &TaskContext) -> Json {
    cx.task().payload.clone()
}

/// What an upgrade function returned.
///
/// # Errors
///
/// The function's own.
pub fn upgraded<T, E: std::fmt::Display>(input: Result<T, E>) -> Result<T, TaskError> {
    input.map_err(|error| TaskError::new(format!("the input of an older version could not be upgraded: {error:#}")))
}
