//! Shows the transactional outbox: an order and its task are stored in one commit, so that neither is ever there alone.
//! Run it with `cargo run --example outbox`.

use aedb_queue::{Db, Effects, ErrorKind, KeyRange};
use aedb_worker::{TaskContext, TaskError, Worker, task, tasks};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    customer: String,
}

/// Sends the confirmation. That it was sent is written in the commit that acknowledges the task.
#[task(queue = "mail", unique(number))]
async fn confirm(order: Order, cx: TaskContext) -> Result<(), TaskError> {
    println!("  mail to {}: order {} is placed", order.customer, order.number);
    cx.effects().put(format!("confirmed:{}", order.number), order.customer);
    Ok(())
}

/// Places an order: the order and its task, or nothing.
async fn place(db: &Db, number: u64, customer: &str) -> aedb_queue::Result<()> {
    let key = format!("order:{number}");
    let order = Effects::new().assert_absent(key.as_str()).put(key.as_str(), customer);
    confirm::enqueue(db, Order { number, customer: customer.to_owned() }).effects(order).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::memory()?;
    place(&db, 1, "ada").await?;
    place(&db, 2, "grace").await?;

    // Somebody else was faster with number 2: the commit is refused as a whole, and no mail goes out.
    match place(&db, 2, "mallory").await {
        Err(error) if error.kind() == ErrorKind::Conflict => println!("refused: {error}"),
        other => println!("unexpected: {other:?}"),
    }
    println!("{} tasks wait", db.queue("mail")?.stats().await?.ready);

    Worker::builder(&db).tasks(tasks![confirm]).build()?.drain().await?;
    let kv = db.default_scope().kv();
    let (orders, mails) = (kv.scan(KeyRange::prefix("order:")).await?, kv.scan(KeyRange::prefix("confirmed:")).await?);
    println!("{} orders, {} confirmed", orders.len(), mails.len());
    Ok(())
}
