//! The tasks alone: no server, no waiting, and everything that can go wrong.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedb_queue::StateKind;
use aedb_worker::testing::{Kit, crash_at_each_commit};
use aedb_worker::{Worker, async_trait};
use starter::tasks::{self, AnyBank, Bank, Order, charge};

/// A bank that remembers its keys, and is away at first if asked to be.
#[derive(Clone, Default)]
struct TestBank {
    charged: Arc<Mutex<BTreeSet<String>>>,
    away: Arc<Mutex<u32>>,
}

#[async_trait]
impl Bank for TestBank {
    async fn charge(&self, cents: u64, key: &str) -> Result<String, std::io::Error> {
        let mut away = self.away.lock().unwrap();
        if *away > 0 {
            *away -= 1;
            return Err(std::io::Error::other("the bank is away"));
        }
        self.charged.lock().unwrap().insert(key.to_owned());
        Ok(format!("receipt for {cents}"))
    }
}

fn worker(kit: &Kit, bank: &TestBank) -> Worker {
    Worker::builder(kit.db()).tasks(tasks::all()).state(AnyBank(Arc::new(bank.clone()))).build().unwrap()
}

async fn state(kit: &Kit) -> String {
    let value = kit.db().default_scope().kv().get("order:7").await.unwrap();
    value.map_or_else(String::new, |state| String::from_utf8(state).unwrap())
}

#[tokio::test]
async fn an_order_is_charged_and_shipped_though_the_bank_is_away_at_first() {
    let (kit, bank) = (Kit::new().unwrap(), TestBank::default());
    *bank.away.lock().unwrap() = 2;
    charge::enqueue(kit.db(), Order { number: 7, cents: 100 }).await.unwrap();
    let worker = worker(&kit, &bank);
    assert_eq!(kit.drain(&worker).await.unwrap(), 1, "it waits for its backoff");
    kit.advance(Duration::from_secs(2));
    assert_eq!(kit.drain_scheduled(&worker).await.unwrap(), 3);
    assert_eq!(state(&kit).await, "shipped");
    assert_eq!(bank.charged.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_order_that_costs_nothing_is_not_tried_twice() {
    let (kit, bank) = (Kit::new().unwrap(), TestBank::default());
    let task = charge::enqueue(kit.db(), Order { number: 7, cents: 0 }).await.unwrap();
    assert_eq!(kit.drain_scheduled(&worker(&kit, &bank)).await.unwrap(), 1);
    let record = kit.queue(charge::QUEUE).unwrap().get(task.id).await.unwrap().unwrap();
    assert_eq!(record.state.kind(), StateKind::Dead);
}

#[tokio::test]
async fn a_worker_that_loses_its_leases_charges_once() {
    let (kit, bank) = (Kit::new().unwrap(), TestBank::default());
    charge::enqueue(kit.db(), Order { number: 7, cents: 100 }).await.unwrap();
    kit.drain_losing_leases(&worker(&kit, &bank)).await.unwrap();
    assert_eq!((state(&kit).await.as_str(), bank.charged.lock().unwrap().len()), ("shipped", 1));
}

#[tokio::test]
async fn wherever_it_crashes_an_order_that_was_taken_is_charged_once_and_shipped() {
    let bank = TestBank::default();
    let run = |kit: Kit| {
        let bank = bank.clone();
        async move {
            bank.charged.lock().unwrap().clear();
            charge::enqueue(kit.db(), Order { number: 7, cents: 100 }).await?;
            kit.drain_scheduled(&worker(&kit, &bank)).await.map(drop)
        }
    };
    let check = |kit: Kit| {
        let bank = bank.clone();
        async move {
            let worker = worker(&kit, &bank);
            kit.drain_scheduled(&worker).await.unwrap();
            let (state, charged) = (state(&kit).await, bank.charged.lock().unwrap().len());
            assert!(matches!((state.as_str(), charged), ("", 0) | ("shipped", 1)), "{state}, charged {charged} times");
        }
    };
    assert!(crash_at_each_commit(run, check).await.unwrap() >= 6);
}
