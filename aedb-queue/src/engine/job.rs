//! A verb on its way through the engine: the function, the place for its answer, and the one who waits.

use std::sync::Arc;

use futures_channel::oneshot;

use super::{Engine, Txn};
use crate::error::{Error, ErrorKind, Result};
use crate::time::Timestamp;

/// What a verb says after it ran.
pub(crate) enum Step {
    /// Its writes and its answer stand if the commit does.
    Done,
    /// It failed; its writes are taken back.
    Failed,
    /// There is nothing to do yet; run it again when `topic` is touched, or at `until`.
    Wait {
        /// What to wait on.
        topic: Vec<u8>,
        /// When something becomes due by itself.
        until: Option<Timestamp>,
    },
}

/// A verb as the engine sees it.
pub(crate) trait Job: Send {
    /// Runs the verb; with `again`, so that it can be run once more. The engine takes the writes back unless the answer is [`Step::Done`].
    fn run(&mut self, txn: &mut Txn<'_>, again: bool) -> Step;
    /// Forgets the answer of a run that was not committed, before the next run.
    fn rewind(&mut self);
    /// Forgets the answer of a run whose commit failed; the verb's own error stays.
    fn withdraw(&mut self);
    /// Takes an error for its answer.
    fn refuse(&mut self, error: Error);
    /// On whose behalf it runs.
    fn caller(&self) -> Option<&str>;
    /// Delivers the answer, or the reason why there is none.
    fn finish(self: Box<Self>, commit: Result<()>);
    /// Whether nobody waits for the answer and the verb has not run yet, so that it need not run at all.
    fn is_abandoned(&self) -> bool;
    /// When a waiting verb gives up and answers with what it has.
    fn gives_up(&self) -> Option<Timestamp> {
        None
    }
}

/// The answer of one run of a waiting verb.
pub(crate) enum Turn<T> {
    /// The answer.
    Ready(T),
    /// Nothing yet.
    Wait { topic: Vec<u8>, until: Option<Timestamp>, so_far: T },
}

struct Once<F, T> {
    caller: Option<Arc<str>>,
    verb: Option<F>,
    answer: Option<Result<T>>,
    /// `None` if nobody waits and the verb must run all the same.
    reply: Option<oneshot::Sender<Result<T>>>,
}

impl<F, T> Job for Once<F, T>
where
    F: FnOnce(&mut Txn<'_>) -> Result<T> + Clone + Send,
    T: Send,
{
    fn run(&mut self, txn: &mut Txn<'_>, again: bool) -> Step {
        let verb = if again { self.verb.clone() } else { self.verb.take() };
        let Some(verb) = verb else { return Step::Failed };
        let answer = verb(txn);
        let step = if answer.is_ok() { Step::Done } else { Step::Failed };
        self.answer = Some(answer);
        step
    }

    fn rewind(&mut self) {
        self.answer = None;
    }

    fn withdraw(&mut self) {
        self.answer.take_if(|answer| answer.is_ok());
    }

    fn refuse(&mut self, error: Error) {
        self.answer = Some(Err(error));
    }

    fn caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }

    fn finish(self: Box<Self>, commit: Result<()>) {
        if let Some(reply) = self.reply {
            // Nobody may be waiting any more: a dropped call may still commit, as documented.
            let _ = reply.send(deliver(self.answer, commit));
        }
    }

    fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_some_and(oneshot::Sender::is_canceled)
    }
}

struct Repeated<F, T> {
    caller: Option<Arc<str>>,
    verb: F,
    /// Makes an answer harmless whose commit did not happen.
    undo: fn(&mut T),
    gives_up: Timestamp,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Job for Repeated<F, T>
where
    F: FnMut(&mut Txn<'_>) -> Result<Turn<T>> + Send,
    T: Send,
{
    fn run(&mut self, txn: &mut Txn<'_>, _again: bool) -> Step {
        match (self.verb)(txn) {
            Ok(Turn::Ready(answer)) => {
                self.answer = Some(Ok(answer));
                Step::Done
            }
            Ok(Turn::Wait { so_far, .. }) if self.gives_up <= txn.now() => {
                self.answer = Some(Ok(so_far));
                Step::Done
            }
            Ok(Turn::Wait { topic, until, .. }) => Step::Wait { topic, until },
            Err(error) => {
                self.answer = Some(Err(error));
                Step::Failed
            }
        }
    }

    fn rewind(&mut self) {
        self.withdraw();
        self.answer = None;
    }

    fn withdraw(&mut self) {
        if let Some(Ok(answer)) = &mut self.answer {
            (self.undo)(answer);
            self.answer = None;
        }
    }

    fn refuse(&mut self, error: Error) {
        self.withdraw();
        self.answer = Some(Err(error));
    }

    fn caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }

    fn finish(self: Box<Self>, commit: Result<()>) {
        let _ = self.reply.send(deliver(self.answer, commit));
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_canceled()
    }

    fn gives_up(&self) -> Option<Timestamp> {
        Some(self.gives_up)
    }
}

/// A verb's own error comes before the commit's: it did not take part in it.
fn deliver<T>(answer: Option<Result<T>>, commit: Result<()>) -> Result<T> {
    match (answer, commit) {
        (Some(Err(error)), _) => Err(error),
        (_, Err(error)) => Err(error),
        (Some(Ok(answer)), Ok(())) => Ok(answer),
        (None, Ok(())) => {
            Err(Error::new(ErrorKind::Unavailable, "the verb panicked and was taken back; nothing was applied"))
        }
    }
}

/// Runs a verb in the next commit and answers when that is durable.
pub(crate) async fn submit<T, F>(engine: &dyn Engine, caller: Option<Arc<str>>, verb: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce(&mut Txn<'_>) -> Result<T> + Clone + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    engine.submit(Box::new(Once { caller, verb: Some(verb), answer: None, reply: Some(reply) }));
    received(answer).await
}

/// Runs a verb in the next commit, though nobody waits for its answer.
pub(crate) fn submit_detached<F>(engine: &dyn Engine, caller: Option<Arc<str>>, verb: F)
where
    F: FnOnce(&mut Txn<'_>) -> Result<()> + Clone + Send + 'static,
{
    engine.submit(Box::new(Once { caller, verb: Some(verb), answer: None, reply: None }));
}

/// Runs a verb that may wait for something to become ready, until an instant.
///
/// `undo` makes an answer harmless whose commit did not happen.
pub(crate) async fn submit_waiting<T, F>(
    engine: &dyn Engine,
    caller: Option<Arc<str>>,
    gives_up: Timestamp,
    undo: fn(&mut T),
    verb: F,
) -> Result<T>
where
    T: Send + 'static,
    F: FnMut(&mut Txn<'_>) -> Result<Turn<T>> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    engine.submit(Box::new(Repeated { caller, verb, undo, gives_up, answer: None, reply }));
    received(answer).await
}

async fn received<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    answer.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, "the database was closed")))
}
