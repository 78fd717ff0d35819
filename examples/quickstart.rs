//! Shows a day of orders: each stored with its task in one commit, fulfilled by workers, with retries and one that must die.
//! Run it with `cargo run --example quickstart`; kill it half way (Ctrl-C or `kill -9`) and run it again: nothing is lost or doubled.

use std::path::Path;
use std::time::Duration;

use aedb_queue::{Db, Effects, ErrorKind, Filter, KeyRange, Queue, StateKind, TaskRecord};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker, WorkerHandle, task, tasks};
use serde::{Deserialize, Serialize};

const FOLDER: &str = "quickstart-data";
const ORDERS: &str = include_str!("orders.jsonl");

#[derive(Serialize, Deserialize)]
struct Order {
    order: u64,
    customer: String,
    item: String,
    quantity: i64,
    cents: i64,
}

/// Packs an order: the stock is counted and the receipt enqueued in the commit that acknowledges the task.
#[task(queue = "shop", retry(max = 3, base = "200ms", cap = "2s"), follow_ups(receipt))]
async fn fulfil(order: Order, cx: TaskContext) -> Result<Outcome<()>, TaskError> {
    tokio::time::sleep(Duration::from_millis(40)).await; // the packing itself
    if order.quantity < 1 {
        return Err(TaskError::new(format!("{} of {} cannot be packed", order.quantity, order.item)));
    }
    if order.order.is_multiple_of(7) && cx.attempt() == 1 {
        return Err(TaskError::new("the packing robot dropped it"));
    }
    let (key, total) = (format!("shipped:{}", order.order), order.quantity * order.cents);
    cx.effects().assert_absent(key.as_str()).put(key, total.to_string()); // a second shipment would be refused here
    Ok(Outcome::done(()).then(fulfil::receipt(order)))
}

/// Writes a receipt: the follow-up of every shipped order.
#[task(queue = "shop")]
async fn receipt(order: Order, cx: TaskContext) {
    let text = format!("{}: {} x {}", order.customer, order.quantity, order.item);
    cx.effects().put(format!("receipt:{}", order.order), text);
}

/// Stores an order and its task, both or neither. An order that is there already was taken in by an earlier run.
async fn take_in(db: &Db, order: Order) -> aedb_queue::Result<bool> {
    let key = format!("order:{}", order.order);
    let stored = Effects::new().assert_absent(key.as_str()).put(key, order.customer.as_str());
    match fulfil::enqueue(db, order).effects(stored).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        Err(error) => Err(error),
    }
}

async fn count(db: &Db, prefix: &str) -> aedb_queue::Result<usize> {
    Ok(db.default_scope().kv().scan(KeyRange::prefix(prefix)).await?.len())
}

/// Whether some task is not finished yet.
async fn is_open(queue: &Queue) -> aedb_queue::Result<bool> {
    queue.stats().await.map(|stats| stats.scheduled + stats.ready + stats.in_flight > 0)
}

async fn summary(db: &Db, queue: &Queue) -> aedb_queue::Result<()> {
    let tasks = queue.list(Filter::all()).await?.tasks; // the first thousand, and there are six hundred
    let interrupted = tasks.iter().filter(|task| task.counters.lost_leases > 0).count();
    let retried = |task: &&TaskRecord| task.state.kind() == StateKind::Done && task.counters.failures > 0;
    println!("  done         {:>4}  orders shipped, each once", count(db, "shipped:").await?);
    println!("  retried      {:>4}  of them, after a failure", tasks.iter().filter(retried).count());
    println!("  follow-ups   {:>4}  receipts written", count(db, "receipt:").await?);
    println!("  interrupted  {interrupted:>4}  tasks of a killed run, run again and charged nothing");
    println!("  dead         {:>4}", queue.stats().await?.dead);
    for task in queue.list(Filter::dead()).await?.tasks {
        println!("    {} {}: {}", task.name, task.payload, queue.explain(task.id).await?);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = tokio::time::Instant::now();
    std::fs::create_dir_all(FOLDER)?;
    let db = Db::open(Path::new(FOLDER).join("shop.db"))?;
    let queue = db.queue(fulfil::QUEUE)?;
    let (mut new, all) = (0, ORDERS.lines().count());
    for line in ORDERS.lines() {
        new += usize::from(take_in(&db, serde_json::from_str(line)?).await?);
    }
    println!("{new} orders taken in, {} were there from an earlier run. The database is {FOLDER}/shop.db.", all - new);
    if !is_open(&queue).await? {
        println!("All of them were finished by an earlier run; `rm -r {FOLDER}` starts afresh. What it did:");
        return Ok(summary(&db, &queue).await?);
    }
    println!("Kill it half way (Ctrl-C, or `kill -9 {}`) and run it again: it goes on.", std::process::id());

    // Several workers, as if they were several processes; leases of a killed run end after two seconds.
    let worker = |n| {
        let worker = Worker::builder(&db).tasks(tasks![fulfil, receipt]).owner(&format!("worker-{n}"));
        worker.concurrency(3).lease(Duration::from_secs(2)).build()
    };
    let workers = (1..=3).map(worker).collect::<Result<Vec<_>, _>>()?;
    let handles: Vec<_> = workers.iter().map(Worker::handle).collect();
    let running: Vec<_> = workers.into_iter().map(|worker| tokio::spawn(worker.run())).collect();
    while is_open(&queue).await? {
        tokio::time::sleep(Duration::from_millis(250)).await;
        println!("  {:>4} shipped, {:>4} receipts", count(&db, "shipped:").await?, count(&db, "receipt:").await?);
    }
    handles.iter().for_each(WorkerHandle::shutdown);
    for worker in running {
        worker.await??;
    }

    println!(
        "Done in {:.1?}; run it again and nothing happens twice, or `rm -r {FOLDER}` and start afresh:",
        start.elapsed()
    );
    Ok(summary(&db, &queue).await?)
}
