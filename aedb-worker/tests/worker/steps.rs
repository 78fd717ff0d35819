//! Steps that must not be repeated: what the next attempt knows of them, wherever the one before ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aedb_queue::{ErrorKind, StateKind};
use aedb_worker::testing::{Kit, context, crash_at_each_commit};
use aedb_worker::{Begun, Outcome, TaskContext, TaskError, Worker};

use crate::task;

/// A bank that can be asked what it has paid.
#[derive(Clone, Default)]
struct Bank(Arc<AtomicU32>);

impl Bank {
    fn pay(&self) -> String {
        format!("receipt {}", self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn paid(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

async fn charge(cx: &TaskContext, bank: &Bank) -> Result<String, TaskError> {
    let step = match cx.once("pay").await? {
        Begun::Done(receipt) => return Ok(receipt),
        Begun::First(step) => step,
        Begun::Unclear(step) if bank.paid() > 0 => {
            step.record("found").await?;
            return Ok("found".to_owned());
        }
        Begun::Unclear(step) => step.begin_again().await?,
    };
    let receipt = bank.pay();
    step.record(&receipt).await?;
    Ok(receipt)
}

fn worker(kit: &Kit, bank: &Bank, fails: u32) -> Worker {
    let bank = bank.clone();
    let handler = move |_: u32, cx: TaskContext| {
        let bank = bank.clone();
        async move {
            let receipt = charge(&cx, &bank).await?;
            if cx.deliveries() <= fails { Err(TaskError::new("after paying")) } else { Ok(Outcome::done(receipt)) }
        }
    };
    Worker::builder(kit.db()).queue("q").handler("n", handler).build().unwrap()
}

#[tokio::test]
async fn a_step_that_was_recorded_is_not_done_again_and_its_record_goes_with_the_task() {
    let (kit, bank) = (Kit::new().unwrap(), Bank::default());
    let queue = kit.queue("q").unwrap();
    let id = queue.enqueue(task("n").max_attempts(5)).await.unwrap().id;
    assert_eq!(kit.drain(&worker(&kit, &bank, 2)).await.unwrap(), 3);
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!(
        (record.state.kind(), record.result.unwrap().to::<String>().unwrap().as_str()),
        (StateKind::Done, "receipt 1")
    );
    assert_eq!(bank.paid(), 1);
    let left = kit.db().default_scope().kv().scan(aedb_queue::KeyRange::prefix(b"\x00once:".to_vec())).await.unwrap();
    assert!(left.is_empty());
}

#[tokio::test]
async fn the_bank_is_paid_once_wherever_the_program_crashes() {
    let banks = std::sync::Mutex::new(Vec::new());
    let run = |kit: Kit| {
        let bank = Bank::default();
        banks.lock().unwrap().push(bank.clone());
        async move {
            kit.queue("q")?.enqueue(task("n").max_attempts(5)).await?;
            kit.drain(&worker(&kit, &bank, 1)).await.map(drop)
        }
    };
    let check = |kit: Kit| {
        let bank = banks.lock().unwrap().last().unwrap().clone();
        async move {
            let enqueued = kit.drain_scheduled(&worker(&kit, &bank, 0)).await.unwrap() > 0;
            let done = kit.queue("q").unwrap().stats().await.unwrap().done;
            assert!(bank.paid() <= 1, "paid {} times", bank.paid());
            assert_eq!(u64::from(bank.paid()), done, "ran again: {enqueued}");
        }
    };
    assert!(crash_at_each_commit(run, check).await.unwrap() >= 6);
}

#[tokio::test]
async fn an_attempt_that_lost_its_lease_cannot_record_over_the_next_one() {
    let kit = Kit::new().unwrap();
    let queue = kit.queue("q").unwrap();
    let id = queue.enqueue(task("n")).await.unwrap().id;
    let (thief, kit_of) = (queue.clone(), kit.clone());
    let handler = move |_: u32, cx: TaskContext| {
        let (thief, kit) = (thief.clone(), kit_of.clone());
        async move {
            match cx.once::<u32>("pay").await? {
                Begun::First(step) if cx.deliveries() == 1 => {
                    kit.steal(&thief, id).await?;
                    let next =
                        Worker::builder(kit.db()).queue("q").handler("n", |_: u32, cx: TaskContext| async move {
                            let Begun::Unclear(step) = cx.once::<u32>("pay").await? else { panic!("it was begun") };
                            step.begin_again().await?.record(&2).await?;
                            Ok(Outcome::done(2))
                        });
                    kit.drain(&next.build()?).await?;
                    assert_eq!(step.record(&1).await.unwrap_err().kind(), ErrorKind::Conflict);
                    Ok(Outcome::done(1))
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let worker = Worker::builder(kit.db()).queue("q").handler("n", handler).build().unwrap();
    kit.drain(&worker).await.unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!(record.result.unwrap().to::<u32>().unwrap(), 2);
    let by_hand = context("n", &1).unwrap().build();
    assert_eq!(by_hand.once::<u32>("pay").await.unwrap_err().kind(), ErrorKind::Invalid);
}
