//! A worker as one future: no thread and no runtime of its own, time by tokio's clock, chance by dice with a seed.
//!
//! Whoever polls it decides when it goes on, so that it can be paused, and dropped as a process is killed. On a current-thread
//! runtime whose clock is paused, the same seeds give the same run.

use std::cell::RefCell;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aedb_queue::Result;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc::unbounded_channel;

use super::attempts::Attempts;
use super::{Control, Mode, Shared, serve};
use crate::worker::Parts;

thread_local! {
    /// The dice of the worker that this thread is polling.
    static DICE: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

/// Whether this thread is polling a simulated worker.
pub(super) fn is_on() -> bool {
    DICE.with_borrow(Option::is_some)
}

/// What the dice say, in a simulation.
pub(super) fn between(range: RangeInclusive<f64>) -> Option<f64> {
    DICE.with_borrow_mut(|dice| dice.as_mut().map(|dice| dice.random_range(range)))
}

/// Runs a worker, its services and its attempts in this one future.
pub(crate) async fn run(parts: Parts, control: Arc<Control>, seed: u64) -> Result<()> {
    let worker = Box::pin(async move {
        let (nursery, mut born) = unbounded_channel();
        let shared = Arc::new(Shared::new(parts, &control, Attempts::Beside(nursery)));
        let (service, mut attempts) = (serve(shared, Mode::Forever), FuturesUnordered::new());
        tokio::pin!(service);
        loop {
            tokio::select! {
                biased;
                ended = &mut service => return ended,
                Some(attempt) = born.recv() => attempts.push(attempt),
                Some(()) = attempts.next() => {}
            }
        }
    });
    Simulated { worker, dice: Some(StdRng::seed_from_u64(seed)) }.await
}

/// A worker with its dice.
struct Simulated<F> {
    worker: Pin<Box<F>>,
    /// In the thread's place while the worker is polled.
    dice: Option<StdRng>,
}

impl<F: Future> Future for Simulated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = DICE.replace(self.dice.take());
        let polled = self.worker.as_mut().poll(context);
        self.dice = DICE.replace(before);
        polled
    }
}
