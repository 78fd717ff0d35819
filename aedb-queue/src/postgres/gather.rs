//! Gathering: while a commit is under way, the enqueues that arrive wait for the next one and share it.
//!
//! Nobody waits for company: a call that finds a flight free leaves at once. What was refused is sent once more, each call by itself, so that
//! nobody fails for what another caller sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sqlx::PgConnection;
use tokio::sync::oneshot;

use super::PgStore;
use super::enqueue::{Batch, Enqueue};
use super::fault::Fault;
use super::grant::Target;
use super::hints::Topic;
use super::pool::Verb;
use crate::error::{Error, ErrorKind, Result};
use crate::model::limits;
use crate::store::{Effects, EnqueueOutcome, NewTask, Place};

/// How many commits are under way at once.
const FLIGHTS: usize = 2;

/// The calls that wait for the next commit.
#[derive(Default)]
pub(super) struct Gathering(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    calls: Vec<Call>,
    flights: usize,
}

struct Call {
    item: Item,
    answer: oneshot::Sender<Result<Vec<EnqueueOutcome>>>,
}

struct Item {
    at: Place,
    queue: String,
    tasks: Vec<NewTask>,
}

impl Gathering {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As many calls as fit into one batch; if there is none, the flight has ended.
    fn board(&self) -> Vec<Call> {
        let mut waiting = self.waiting();
        let mut tasks = 0;
        let fits = waiting.calls.iter().take_while(|call| {
            tasks += call.item.tasks.len();
            tasks <= limits::BATCH
        });
        let fits = fits.count();
        if fits == 0 {
            waiting.flights -= 1;
        }
        waiting.calls.drain(..fits).collect()
    }
}

impl PgStore {
    /// Enqueues with whatever else is about to be enqueued.
    pub(super) async fn gathered(&self, at: &Place, queue: &str, tasks: Vec<NewTask>) -> Result<Vec<EnqueueOutcome>> {
        let (answer, answered) = oneshot::channel();
        let takes_off = {
            let mut waiting = self.0.gathering.waiting();
            waiting.calls.push(Call { item: Item { at: at.clone(), queue: queue.to_owned(), tasks }, answer });
            let free = waiting.flights < FLIGHTS;
            waiting.flights += usize::from(free);
            free
        };
        if takes_off {
            let store = self.clone();
            self.0.runtime.spawn(async move { store.fly().await });
        }
        answered.await.unwrap_or_else(|gone| {
            Err(Error::new(ErrorKind::UnknownOutcome, "the runtime of the database has ended").caused_by(gone))
        })
    }

    async fn fly(&self) {
        loop {
            let (items, answers): (Vec<_>, Vec<_>) =
                self.0.gathering.board().into_iter().map(|call| (call.item, call.answer)).unzip();
            let Some(first) = items.first() else { return };
            let (at, target) = (first.at.clone(), Target::Effects);
            let verb = Together(items);
            match self.attempts(&at, &target, &verb).await {
                Ok(outcomes) => {
                    for (answer, outcomes) in answers.into_iter().zip(outcomes) {
                        drop(answer.send(Ok(outcomes)));
                    }
                }
                // Nothing was applied: each by itself. An outcome that nobody knows is nobody's to try again.
                Err(error) if answers.len() > 1 && error.kind() != ErrorKind::UnknownOutcome => {
                    for (Item { at, queue, tasks }, answer) in verb.0.into_iter().zip(answers) {
                        let alone = Enqueue { at: at.clone(), queue, tasks, effects: Effects::new() };
                        drop(answer.send(self.attempts(&at, &target, &alone).await));
                    }
                }
                Err(error) => {
                    for answer in answers {
                        drop(answer.send(Err(Error::new(error.kind(), error.to_string()))));
                    }
                }
            }
        }
    }
}

/// Several enqueues in one commit.
struct Together(Vec<Item>);

impl Verb for Together {
    type Answer = Vec<Vec<EnqueueOutcome>>;

    fn touches(&self) -> Vec<Topic> {
        let mut topics: Vec<Topic> = self.0.iter().map(|item| Topic::ready(&item.at, &item.queue)).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Self::Answer, Fault> {
        let mut batch = Batch::default();
        for item in &self.0 {
            let queue = store.queue_number(conn, &item.at, &item.queue).await?;
            item.tasks.iter().for_each(|task| batch.push(queue, task));
        }
        let mut outcomes = batch.run(store, conn).await?.into_iter();
        Ok(self.0.iter().map(|item| outcomes.by_ref().take(item.tasks.len()).collect()).collect())
    }
}
