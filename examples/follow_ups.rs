//! Shows follow-ups: a chain (order, charge, receipt) and a fan-out (one parcel for each item), each step in its parent's commit.
//! Run it with `cargo run --example follow_ups`.

use aedb_queue::{Db, KeyRange};
use aedb_worker::{Outcome, TaskContext, TaskError, Worker, task, tasks};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Clone)]
struct Order {
    number: u64,
    items: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Parcel {
    order: u64,
    item: String,
}

/// The first step. What it may enqueue is declared; anything else does not compile.
#[task(queue = "shop", follow_ups(charge))]
async fn order(order: Order) -> Outcome<()> {
    println!("order {} has {} items", order.number, order.items.len());
    Outcome::done(()).then(order::charge(order))
}

/// The chain goes on with the receipt, and fans out into one parcel for each item: all of them, or none.
#[task(queue = "shop", follow_ups(receipt, pack))]
async fn charge(order: Order) -> Result<Outcome<u64>, TaskError> {
    let cents = 100 * order.items.len() as u64;
    println!("  charged {cents} cents");
    let mut outcome = Outcome::done(cents).then(charge::receipt(order.number));
    for item in order.items {
        outcome = outcome.then(charge::pack(Parcel { order: order.number, item }));
    }
    Ok(outcome)
}

#[task(queue = "mail")]
async fn receipt(order: u64) {
    println!("    receipt for order {order}");
}

/// A leaf. That it is packed is written in the commit that completes its task.
#[task(queue = "shop")]
async fn pack(parcel: Parcel, cx: TaskContext) -> Result<(), TaskError> {
    println!("    packed {}", parcel.item);
    cx.effects().put(format!("parcel:{}:{}", parcel.order, parcel.item), "packed");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::memory()?;
    let worker = Worker::builder(&db).tasks(tasks![order, charge, receipt, pack]).concurrency(1).build()?;
    print!("The graph, checked when the worker was built:\n\n{}\n{}\n", worker.graph(), worker.graph().mermaid());

    let items = ["book", "lamp", "chair"].map(str::to_owned).to_vec();
    order::enqueue(&db, Order { number: 7, items }).await?;
    worker.drain().await?;
    println!("{} parcels", db.default_scope().kv().scan(KeyRange::prefix("parcel:7:")).await?.len());
    Ok(())
}
