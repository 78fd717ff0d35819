//! Publishers: where events go.

use std::future::Future;

use async_trait::async_trait;

use super::event::Event;
use crate::error::TaskError;

/// Delivers events to the outside world. An async function of an [`Event`] is one.
#[async_trait]
pub trait Publisher: Send + Sync + 'static {
    /// Delivers one event; `Ok` means that the receiver has it. Events of one key come one after the other, those of different
    /// keys at once. An error is tried again with growing pauses, and a [fatal](TaskError::fatal) one parks the key at once.
    ///
    /// # Errors
    ///
    /// Whatever kept it from being delivered.
    async fn publish(&self, event: Event) -> Result<(), TaskError>;
}

#[async_trait]
impl<F, R> Publisher for F
where
    F: Fn(Event) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), TaskError>> + Send + 'static,
{
    async fn publish(&self, event: Event) -> Result<(), TaskError> {
        self(event).await
    }
}
