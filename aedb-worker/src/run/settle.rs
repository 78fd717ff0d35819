//! Settle: from what the handler returned to the queue's answer, gathered into one call for all attempts that wait.

use std::sync::{Arc, PoisonError};

use aedb_queue::{
    ClaimedTask, Completion, Decision, Effect, Effects, Error, ErrorKind, FencedCommit, Heartbeat, Json, LeaseLength,
    LeaseLoss, Result, Retry, Settlement, Timestamp,
};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::pause::Pause;
use super::sync::{Mutex, MutexGuard};
use super::{Entry, Shared, monotonic};
use crate::context::TaskContext;
use crate::error::{self, TaskError};
use crate::events;
use crate::handler::Decided;
use crate::layer::Dead;
use crate::outcome::Kind;

/// The most outcomes in one call.
const MOST: usize = 1_000;

/// What the queue is told about an attempt that returned.
pub(crate) fn decision(cx: &TaskContext, decided: Decided, now: Timestamp) -> Decision {
    let outcome = match decided {
        Ok(outcome) => outcome,
        Err(error) => return Decision::Fail { error: error.to_string().into(), retry: retry(&error, now) },
    };
    let effects = inherit_trace(cx.task(), cx.take_effects().and(outcome.effects));
    match outcome.kind {
        Kind::Done(result) => {
            let mut done = Completion::new().effects(effects);
            if let Some(keep) = outcome.keep {
                done = done.keep(keep);
            }
            Decision::Complete(if result == Json::null() { done } else { done.result(result) })
        }
        Kind::Snooze(until) => Decision::Snooze(until),
        Kind::Discard(reason) => Decision::Discard { reason: reason.into() },
        Kind::Continue { payload, due } => Decision::Continue { payload, effects, due },
    }
}

fn retry(error: &TaskError, now: Timestamp) -> Retry {
    match error.retry {
        error::Retry::ByPolicy => Retry::ByPolicy,
        error::Retry::Never => Retry::Fatal,
        error::Retry::After(wait) => Retry::At(now.saturating_add(wait)),
    }
}

/// Follow-ups belong to their parent's trace, unless they have one.
fn inherit_trace(parent: &ClaimedTask, effects: Effects) -> Effects {
    let Some((name, value)) = parent.metadata.iter().find(|(name, _)| &**name == events::TRACEPARENT) else {
        return effects;
    };
    let inherit = |effect| match effect {
        Effect::Enqueue { queue, task } if task.metadata_value(name).is_none() => {
            Effect::Enqueue { queue, task: Box::new(task.metadata(Arc::clone(name), Arc::clone(value))) }
        }
        other => other,
    };
    effects.into_iter().map(inherit).collect()
}

/// Outcomes that wait for the queue to have them. There are never more than attempts.
#[derive(Debug, Default)]
pub(crate) struct Settles {
    items: Mutex<Vec<Item>>,
    bell: Notify,
}

#[derive(Debug)]
struct Item {
    entry: Arc<Entry>,
    decision: Decision,
}

impl Settles {
    fn items(&self) -> MutexGuard<'_, Vec<Item>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands in an attempt's outcome. Only the first one counts; false for others.
    pub(crate) fn push(&self, entry: &Arc<Entry>, decision: Decision) -> bool {
        let first = entry.decide();
        if first {
            self.items().push(Item { entry: Arc::clone(entry), decision });
            self.bell.notify_one();
        }
        first
    }

    /// How many wait.
    #[cfg(all(test, shuttle))]
    pub(super) fn waiting(&self) -> usize {
        self.items().len()
    }

    /// The outcomes of one queue, at least one and at most so many.
    pub(super) async fn take(&self, most: usize) -> Batch<'_> {
        loop {
            let rung = self.bell.notified();
            let items = self.take_now(most);
            if !items.is_empty() {
                return Batch { settles: self, items };
            }
            rung.await;
        }
    }

    fn take_now(&self, most: usize) -> Vec<Item> {
        let mut items = self.items();
        let Some(line) = items.first().map(|item| item.entry.line) else { return Vec::new() };
        let mut room = most;
        let fits = |item: &mut Item| {
            let fits = item.entry.line == line && room > 0;
            room -= usize::from(fits);
            fits
        };
        items.extract_if(.., fits).collect()
    }
}

/// Outcomes on their way. Those without an answer go back, whatever ends the way.
pub(super) struct Batch<'a> {
    settles: &'a Settles,
    items: Vec<Item>,
}

#[cfg(all(test, shuttle))]
impl Batch<'_> {
    /// Takes the answers of all.
    pub(super) fn answered(mut self) -> Vec<Arc<Entry>> {
        self.items.drain(..).map(|item| item.entry).collect()
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            self.settles.items().splice(..0, self.items.drain(..));
            self.settles.bell.notify_one();
        }
    }
}

/// Tells the queue what attempts decided, until it has an answer for each.
pub(crate) async fn settle(shared: &Shared, over: &CancellationToken) -> Result<()> {
    let (mut pause, mut alone) = (Pause::new(), 0_usize);
    loop {
        // After a call that was refused as a whole, each item is asked for alone, to find the one that is to blame.
        let most = if alone > 0 { 1 } else { MOST };
        let mut batch = tokio::select! {
            biased;
            () = over.cancelled() => return Ok(()),
            batch = shared.settles.take(most) => batch,
        };
        alone = alone.saturating_sub(1);
        match tell(shared, &mut batch).await {
            Ok(()) => pause.reset(),
            Err(error) if is_refusal(error.kind()) && batch.items.len() > 1 => alone = batch.items.len(),
            Err(error) if is_refusal(error.kind()) => refuse(&mut batch, &error),
            Err(error) => {
                events::store_away("settle", pause.failed(), &error);
                drop(batch);
                sleep(pause.next()).await;
            }
        }
    }
}

/// One call for a batch; what has an answer leaves it.
async fn tell(shared: &Shared, batch: &mut Batch<'_>) -> Result<()> {
    let Some(first) = batch.items.first() else { return Ok(()) };
    let queue = shared.line(&first.entry).clone();
    let last_words: Vec<_> = batch.items.iter().filter_map(checkpoint).collect();
    if !last_words.is_empty() {
        queue.heartbeat_batch(last_words).await?;
    }
    let settlements = batch.items.iter().map(|item| Settlement::new(&item.entry.task, item.decision.clone()));
    let answers = queue.settle(settlements.collect()).await?;
    let mut refused = Vec::new();
    for (item, answer) in batch.items.drain(..).zip(answers) {
        match answer {
            // The second is the answer after a commit whose first answer was lost.
            Ok(FencedCommit::Applied | FencedCommit::LeaseLost(LeaseLoss::AlreadySettled)) => applied(shared, &item),
            Ok(FencedCommit::LeaseLost(loss)) => {
                if !matches!(item.decision, Decision::Release) {
                    events::lease_lost(&item.entry.task, &format!("its outcome was refused: {loss:?}"));
                }
                shared.running.end(&item.entry);
            }
            Err(error) => refused.push(Item { decision: failure(&error), entry: item.entry }),
        }
    }
    batch.items = refused;
    Ok(())
}

/// A throttled checkpoint that the attempt's end writes; a completed task needs none.
fn checkpoint(item: &Item) -> Option<Heartbeat> {
    if matches!(item.decision, Decision::Complete(_) | Decision::Continue { .. }) {
        return None;
    }
    let entry = &item.entry;
    let progress = entry.take_checkpoint(false)?;
    Some(Heartbeat::new(&entry.task, LeaseLength::of(entry.lease)).progress(progress))
}

fn applied(shared: &Shared, item: &Item) {
    let task = &item.entry.task;
    let dead = match &item.decision {
        Decision::Fail { error, retry } if task.would_die(retry) => Some(error),
        _ => None,
    };
    let took = monotonic::now().saturating_duration_since(item.entry.begun);
    events::finished(task, &item.decision, dead.is_some(), took);
    if let Some(error) = dead {
        let (queue, name, error) = (Arc::clone(&task.queue), Arc::clone(&task.name), Arc::clone(error));
        shared.died(Dead { queue, id: task.id, name, error });
    }
    shared.running.end(&item.entry);
}

/// The handler's own effects or result were refused: that is a failure of the attempt, and is recorded as one.
fn refuse(batch: &mut Batch<'_>, error: &Error) {
    for item in &mut batch.items {
        item.decision = failure(error);
    }
}

fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::TooLarge | ErrorKind::PermissionDenied)
}

fn failure(error: &Error) -> Decision {
    Decision::Fail { error: error.to_string().into(), retry: Retry::ByPolicy }
}
