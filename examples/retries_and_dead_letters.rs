//! Shows what becomes of failures: retries with backoff, errors that are fatal, and dead tasks that are looked at and revived.
//! Run it with `cargo run --example retries_and_dead_letters`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aedb_queue::{Db, Filter, Queue};
use aedb_worker::{Meta, State, TaskError, TaskResult, Worker, WorkerHandle, task, tasks};

/// Whether the bank answers.
#[derive(Default)]
struct Bank(AtomicBool);

/// Two more attempts after the first, 100 and 200 ms later.
#[task(queue = "bank", retry(max = 3, base = "100ms", cap = "1s", jitter = 0))]
async fn transfer(amount: String, meta: Meta, State(bank): State<Bank>) -> Result<u64, TaskError> {
    println!("  attempt {} to transfer {amount}", meta.attempt);
    let cents: u64 = amount.parse().fatal()?; // no later attempt will read it better
    if cents > 1_000 && meta.attempt == 1 {
        return Err(TaskError::new("the limit is checked by hand").retry_after(Duration::from_millis(50)));
    }
    if !bank.0.load(Ordering::Relaxed) {
        return Err(TaskError::new("the bank does not answer")); // as any error by `?`: tried again by the policy
    }
    Ok(cents)
}

/// Waits until every task is done or dead.
async fn settled(queue: &Queue) -> aedb_queue::Result<()> {
    loop {
        let stats = queue.stats().await?;
        if stats.scheduled + stats.ready + stats.in_flight == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn run(db: &Db) -> Result<(), Box<dyn std::error::Error>> {
    let queue = db.queue("bank")?;
    transfer::enqueue(db, "250".to_owned()).await?;
    transfer::enqueue(db, "ten".to_owned()).await?;
    settled(&queue).await?;

    println!("{} are dead:", queue.stats().await?.dead);
    for task in queue.list(Filter::dead()).await?.tasks {
        println!("  {} {}: {}", task.name, task.payload, queue.explain(task.id).await?);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::memory()?;
    let start = |bank: Bank| -> aedb_queue::Result<(WorkerHandle, _)> {
        let worker = Worker::builder(&db).tasks(tasks![transfer]).state(bank).build()?;
        Ok((worker.handle(), tokio::spawn(worker.run())))
    };

    let (handle, running) = start(Bank::default())?;
    run(&db).await?;
    handle.shutdown();
    running.await??;

    // The bank answers again, so its dead tasks get a fresh budget. The one that cannot be read is removed.
    let queue = db.queue("bank")?;
    for task in queue.list(Filter::dead()).await?.tasks {
        let readable = task.payload.to::<String>()?.parse::<u64>().is_ok();
        let done = if readable { queue.retry(task.id).await? } else { queue.delete(task.id).await? };
        println!("{} {}: {done}", if readable { "revived" } else { "removed" }, task.payload);
    }
    let (handle, running) = start(Bank(AtomicBool::new(true)))?;
    transfer::enqueue(&db, "5000".to_owned()).await?;
    settled(&queue).await?;
    handle.shutdown();
    running.await??;
    let stats = queue.stats().await?;
    println!("{} done, {} dead", stats.done, stats.dead);
    Ok(())
}
