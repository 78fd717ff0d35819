//! Keeps a service alive: one that panics is started again, with growing pauses, and one that cannot live ends the worker.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use aedb_queue::{Error, ErrorKind, Result};
use futures_util::FutureExt;
use tokio::time::sleep;

use super::attempt::words;
use super::monotonic;
use super::pause::Pause;
use crate::events;

/// So many panics, each within `CALM` of the one before, and the service is given up.
const PANICS: u32 = 5;
/// A service that ran this long is healthy again.
const CALM: Duration = Duration::from_secs(60);

/// Runs a service until it ends by itself.
///
/// # Errors
///
/// The service's own, or that it panicked again and again.
pub(crate) async fn supervise<F>(name: &'static str, service: impl Fn() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let mut pause = Pause::new();
    loop {
        let began = monotonic::now();
        let panic = match AssertUnwindSafe(service()).catch_unwind().await {
            Ok(ended) => return ended,
            Err(panic) => panic,
        };
        if monotonic::now().saturating_duration_since(began) > CALM {
            pause.reset();
        }
        let panics = pause.failed();
        events::service_panicked(name, words(&*panic), panics);
        if panics == PANICS {
            let message = format!("the worker's {name} panicked {panics} times: {}", words(&*panic));
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        sleep(pause.next()).await;
    }
}
