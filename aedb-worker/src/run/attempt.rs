//! The life of one attempt, top to bottom: wait for a turn, find the handler, run it guarded, hand in what it decided.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aedb_queue::Decision;
use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use super::{Entry, Room, Shared, settle};
use crate::context::{Keeper, TaskContext};
use crate::error::TaskError;
use crate::events;
use crate::handler::Registered;
use crate::layer::Next;
use crate::worker::Parts;

pub(crate) async fn live(shared: Arc<Shared>, entry: Arc<Entry>, room: Arc<Room>) {
    let attempt = Undecided { shared: &shared, entry: &entry };
    let Some(turn) = turn(&shared, &entry).await else { return };
    room.enter(turn);
    let decision = match shared.parts.registry.get(&entry.task.name) {
        Some(found) => {
            entry.started(found.defaults.timeout);
            watched(&shared, found, &entry).await
        }
        None => Decision::Release, // some other worker knows this name
    };
    attempt.decided(decision);
}

/// An attempt without an outcome. Dropped so, its task is given back.
struct Undecided<'a> {
    shared: &'a Shared,
    entry: &'a Arc<Entry>,
}

impl Undecided<'_> {
    fn decided(&self, decision: Decision) {
        self.shared.settles.push(self.entry, decision);
    }
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        self.decided(Decision::Release);
        if self.entry.is_lost() {
            self.shared.running.end(self.entry);
        }
    }
}

/// A task that was claimed ahead waits until another attempt ends; `None` if it should go back instead.
async fn turn(shared: &Shared, entry: &Entry) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        () = entry.asked.cancelled() => None,
        turn = Arc::clone(&shared.turns).acquire_owned() => turn.ok(),
    }
}

/// Runs the handler, under the eyes of the heartbeat thread.
async fn watched(shared: &Shared, found: &Registered, entry: &Arc<Entry>) -> Decision {
    let parts = &shared.parts;
    let keeper = Keeper::Queue {
        queue: shared.line(entry).clone(),
        kv: parts.scope.kv(),
        lease: entry.lease,
        entry: Some(Arc::clone(entry)),
    };
    let cx = TaskContext::new(Arc::clone(&entry.task), Arc::clone(&parts.states), entry.asked.clone(), keeper);
    events::started(&entry.task, parts.now());
    Watched { attempt: Box::pin(guarded(parts, found, &cx)), entry }.instrument(events::attempt_span(&entry.task)).await
}

/// Runs the handler until it returns or panics.
pub(crate) async fn guarded(parts: &Parts, found: &Registered, cx: &TaskContext) -> Decision {
    // A handler may panic before it returns a future, and while that is dropped, so both happen inside of the guard.
    let attempt = async { Next::new(&parts.layers, &*found.handler).run(cx.clone()).await };
    match AssertUnwindSafe(attempt).catch_unwind().await {
        Ok(Err(error)) if cx.was_told() && !error.is_fatal() => Decision::Release,
        Ok(decided) => settle::decision(cx, decided, parts.now()),
        Err(panic) => {
            let error = TaskError::new(format!("the handler panicked: {}", words(&*panic)));
            settle::decision(cx, Err(error), parts.now())
        }
    }
}

/// Notes when each poll of a handler begins and ends, so that the heartbeat thread can name one that blocks its thread.
struct Watched<'a, F> {
    attempt: Pin<Box<F>>,
    entry: &'a Entry,
}

impl<F: Future> Future for Watched<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.entry.poll_begins();
        let polled = self.attempt.as_mut().poll(context);
        self.entry.poll_ends();
        polled
    }
}

/// What a panic said, if it said it in words.
pub(crate) fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text")
}
