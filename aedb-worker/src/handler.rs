//! Handlers by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::context::TaskContext;
use crate::error::TaskError;
use crate::outcome::Outcome;

/// A running handler.
pub(crate) type Attempt = Pin<Box<dyn Future<Output = Result<Outcome, TaskError>> + Send>>;

/// A handler whatever its type.
pub(crate) type Handler = Arc<dyn Fn(TaskContext) -> Attempt + Send + Sync>;

/// The handlers that a worker has.
pub(crate) type Handlers = BTreeMap<Arc<str>, Handler>;

pub(crate) fn erase<F, R>(handler: F) -> Handler
where
    F: Fn(TaskContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome, TaskError>> + Send + 'static,
{
    Arc::new(move |cx| Box::pin(handler(cx)))
}
