//! What the simulated application does with its tasks.

use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{NewTask, TaskId};
use aedb_worker::{Outcome, TaskContext, TaskError, WorkerBuilder};
use tokio::time::sleep;

use super::world::World;

/// The payload of a continued task is this much more.
const CONTINUED: u64 = 1_000_000;

/// Adds the handlers.
pub(crate) fn handlers(worker: WorkerBuilder, world: &Arc<World>) -> WorkerBuilder {
    let (here, there) = (Arc::clone(world), Arc::clone(world));
    worker
        .handler("work", move |number: u64, cx| work(Arc::clone(&here), number, cx))
        .timeout(Duration::from_secs(8))
        .handler("follow", move |_: u64, cx| follow(Arc::clone(&there), cx))
}

/// An attempt, from its start until its handler has returned or was dropped.
struct Attempt {
    world: Arc<World>,
    id: TaskId,
    token: u64,
}

impl Attempt {
    fn of(world: Arc<World>, cx: &TaskContext) -> Self {
        let (id, token) = (cx.id(), cx.token().as_u64());
        world.truth().starts(id, token);
        Self { world, id, token }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.world.truth().ends(self.id, self.token);
    }
}

async fn work(world: Arc<World>, number: u64, cx: TaskContext) -> Result<Outcome<u64>, TaskError> {
    let _attempt = Attempt::of(world, &cx);
    let moment = Duration::from_millis(10 + number * 37 % 200);
    match number % 16 {
        // Longer than a lease, with a checkpoint now and then.
        0..=3 => {
            let done: u64 = cx.progress()?.unwrap_or(0);
            for step in done..5 {
                sleep(moment * 5).await;
                cx.checkpoint(&(step + 1)).await?;
            }
        }
        4 if cx.attempt() == 1 => return Err(TaskError::new("first")),
        5 => return Err(TaskError::new("always")),
        6 if cx.deliveries() < 3 => return Ok(Outcome::snooze(moment)),
        7 => return Ok(Outcome::discard("not wanted")),
        8 if number < CONTINUED => return Ok(Outcome::continue_after(moment, &(number + CONTINUED))?),
        9 if cx.attempt() == 1 => panic!("a planned panic"),
        10 => return Err(TaskError::new("hopeless").fatal()),
        // One that listens.
        11 => tokio::select! {
            () = cx.cancelled() => return Err(TaskError::new("interrupted")),
            () = sleep(moment * 15) => {}
        },
        // One that does not end by itself, and is stopped by its timeout or its lease.
        12 if cx.deliveries() < 2 => sleep(Duration::from_mins(10)).await,
        _ => sleep(moment).await,
    }
    let key = format!("done/{}", cx.id());
    cx.effects().assert_absent(key.as_str()).put(key, cx.token().to_string());
    cx.enqueue("side", NewTask::new("follow", &number)?.idempotency_key(format!("follow/{}", cx.id())));
    Ok(Outcome::done(number))
}

async fn follow(world: Arc<World>, cx: TaskContext) -> Result<Outcome<()>, TaskError> {
    let _attempt = Attempt::of(world, &cx);
    sleep(Duration::from_millis(20)).await;
    let key = format!("done/{}", cx.id());
    cx.effects().assert_absent(key.as_str()).put(key, cx.token().to_string());
    Ok(Outcome::done(()))
}
