//! Shows how a task is tested: the function alone, the handler, and the whole way with crashes, all without waiting.
//! Run it with `cargo test --example unit_test`.

use aedb_queue::Db;
use aedb_worker::{Progress, State, TaskContext, TaskError, Worker, WorkerBuilder, task, tasks};

struct Price(u64);

/// Charges for some items, once.
#[task(queue = "shop", retry(max = 3, base = "10s", jitter = 0))]
async fn charge(
    items: u64,
    State(price): State<Price>,
    Progress(paid): Progress<u64>,
    cx: TaskContext,
) -> Result<u64, TaskError> {
    let cents = match paid {
        Some(cents) => cents,
        None if items == 0 => return Err(TaskError::new("nothing to charge for").fatal()),
        None if items > 100 && cx.attempt() == 1 => return Err(TaskError::new("the bank asks again later")),
        None => items * price.0,
    };
    cx.checkpoint(&cents).await?;
    cx.effects().assert_absent("charged").put("charged", cents.to_string());
    Ok(cents)
}

fn worker(db: &Db) -> WorkerBuilder {
    Worker::builder(db).tasks(tasks![charge]).state(Price(7))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::memory()?;
    charge::enqueue(&db, 6).await?;
    worker(&db).build()?.drain().await?;
    println!("{} done; the tests are the point: cargo test --example unit_test", db.queue("shop")?.stats().await?.done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aedb_queue::StateKind;
    use aedb_worker::testing::{self, Kit};

    use super::*;

    /// The task is a function: call it, with a context made by hand.
    #[tokio::test]
    async fn what_was_paid_is_not_paid_again() {
        let cx = testing::context(charge::NAME, &6).unwrap().attempt(2).build();
        let cents = charge(6, State(Arc::new(Price(7))), Progress(Some(41)), cx.clone()).await.unwrap();
        assert_eq!(cents, 41, "what an earlier attempt has recorded");
        assert_eq!(cx.checkpoints().len(), 1);
        assert_eq!(cx.effects().list().len(), 2);
    }

    #[tokio::test]
    async fn nothing_costs_nothing_and_is_not_tried_again() {
        let cx = testing::context(charge::NAME, &0).unwrap().build();
        let error = charge(0, State(Arc::new(Price(7))), Progress(None), cx).await.unwrap_err();
        assert!(error.is_fatal());
    }

    /// The whole way: a database in memory, a worker, and a clock that moves when told to.
    #[tokio::test]
    async fn a_large_order_is_charged_at_the_second_attempt() {
        let kit = Kit::new().unwrap();
        let id = charge::enqueue(kit.db(), 200).await.unwrap().id;
        let worker = worker(kit.db()).build().unwrap();
        assert_eq!(kit.drain(&worker).await.unwrap(), 1);
        let record = kit.queue("shop").unwrap().get(id).await.unwrap().unwrap();
        assert_eq!(record.state.kind(), StateKind::Scheduled, "it waits for 10 s, and nobody else does");
        assert_eq!(kit.drain_scheduled(&worker).await.unwrap(), 1);
        let record = kit.queue("shop").unwrap().get(id).await.unwrap().unwrap();
        assert_eq!(record.result.unwrap().to::<u64>().unwrap(), 1_400);
    }

    /// Everything that can go wrong: a crash before and after each commit.
    #[tokio::test]
    async fn an_order_is_charged_once_wherever_the_program_crashes() {
        let run = |kit: Kit| async move {
            charge::enqueue(kit.db(), 6).key("order-7").await?;
            kit.drain(&worker(kit.db()).build()?).await.map(drop)
        };
        let check = |kit: Kit| async move {
            charge::enqueue(kit.db(), 6).key("order-7").await.unwrap(); // the caller asks again, with the same key
            kit.drain(&worker(kit.db()).build().unwrap()).await.unwrap();
            let charged = kit.db().default_scope().kv().get("charged").await.unwrap();
            assert_eq!(charged.as_deref(), Some(&b"42"[..]));
        };
        assert!(testing::crash_at_each_commit(run, check).await.unwrap() >= 3);
    }
}
