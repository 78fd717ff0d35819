//! Shows tasks that wait: for a span, for an instant, for something that is not there yet, and a timer that sets itself again.
//! Run it with `cargo run --example delayed_and_timer`.

use std::time::Duration;

use aedb_queue::Db;
use aedb_worker::{Meta, Outcome, State, TaskContext, Worker, task, tasks};

const TICK: Duration = Duration::from_millis(200);

#[task]
async fn remind(text: String, meta: Meta) {
    println!("  {text} (task {})", meta.id);
}

/// Looks for something, and is put off while it is not there. Snoozing is no failure: no attempt is spent.
#[task]
async fn watch(key: String, cx: TaskContext, State(db): State<Db>) -> aedb_queue::Result<Outcome<()>> {
    if db.default_scope().kv().get(&key).await?.is_none() {
        println!("  {key} is not there yet (delivery {})", cx.deliveries());
        return Ok(Outcome::snooze(TICK));
    }
    println!("  {key} is there");
    Ok(Outcome::done(()))
}

/// A timer: the same task goes on with another input. It survives restarts, and cannot run twice at once.
#[task(unique(key = "the only one"))]
async fn tick(left: u32, cx: TaskContext) -> aedb_queue::Result<Outcome<()>> {
    println!("  tick, {left} left");
    if left == 2 {
        cx.effects().put("parcel", "arrived"); // seen from the next tick on
    }
    if left == 0 { Ok(Outcome::done(())) } else { Outcome::continue_after(TICK, &(left - 1)) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::memory()?;
    remind::enqueue(&db, "after 100 ms".to_owned()).delay(Duration::from_millis(100)).await?;
    let queue = db.queue(remind::QUEUE)?;
    let instant = queue.now().saturating_add(Duration::from_millis(300));
    remind::enqueue(&queue, format!("at {instant}")).at(instant).await?;
    let watcher = watch::enqueue(&queue, "parcel".to_owned()).await?;
    let timer = tick::enqueue(&queue, 5).await?;
    println!("a second timer is refused: {}", tick::enqueue(&queue, 9).await?.deduplicated);

    let worker = Worker::builder(&db).tasks(tasks![remind, watch, tick]).state(db.clone()).build()?;
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    for ends in [timer, watcher] {
        queue.wait_for(ends.id, Duration::from_secs(20)).await?;
    }
    handle.shutdown();
    running.await??;
    println!("{} done", queue.stats().await?.done);
    Ok(())
}
