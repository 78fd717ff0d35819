//! The tasks: what is done with an order, and what is tried again.

use std::sync::Arc;

use aedb_worker::outbox::event;
use aedb_worker::{Begun, Outcome, State, TaskContext, TaskError, Tasks, async_trait, task, tasks};
use serde::{Deserialize, Serialize};

/// An order as it comes in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Its number; one order has one.
    pub number: u64,
    /// What it costs.
    pub cents: u64,
}

/// Who takes the money: a real one in production, another in tests.
#[async_trait]
pub trait Bank: Send + Sync {
    /// Charges once for each key, however often it is called with it.
    async fn charge(&self, cents: u64, key: &str) -> Result<String, std::io::Error>;
}

/// The bank that tasks get.
pub struct AnyBank(pub Arc<dyn Bank>);

/// Charges an order. The receipt, the order's new state, the event and the follow-up are one commit with the acknowledgement.
#[task(
    name = "order.charge",
    queue = "orders",
    retry(max = 10, base = "2s", cap = "10m"),
    timeout = "30s",
    unique(number),
    follow_ups(ship)
)]
pub async fn charge(order: Order, cx: TaskContext, State(bank): State<AnyBank>) -> Result<Outcome<String>, TaskError> {
    if order.cents == 0 {
        return Err(TaskError::new("an order that costs nothing cannot be charged").fatal());
    }
    let receipt = match cx.once("charge").await? {
        Begun::Done(receipt) => receipt,
        // The bank knows its keys, so that asking again is harmless.
        Begun::First(step) | Begun::Unclear(step) => {
            let receipt = bank.0.charge(order.cents, step.key()).await?;
            step.record(&receipt).await?;
            receipt
        }
    };
    cx.effects().put(format!("order:{}", order.number), "charged").and(told(&order, "charged")?);
    Ok(Outcome::done(receipt).then(charge::ship(order)))
}

/// Ships an order that was charged.
#[task(name = "order.ship", queue = "orders")]
pub async fn ship(order: Order, cx: TaskContext) -> Result<(), TaskError> {
    cx.effects().put(format!("order:{}", order.number), "shipped").and(told(&order, "shipped")?);
    Ok(())
}

/// The event of an order's new state, in order with the order's others.
fn told(order: &Order, state: &str) -> aedb_queue::Result<aedb_queue::Effects> {
    event("orders", &format!("order:{}", order.number), state)
}

/// All tasks of the service.
pub fn all() -> Tasks {
    tasks![charge, ship]
}
