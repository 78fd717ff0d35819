//! The testing kit, as its users use it.

use std::time::Duration;

use aedb_queue::{Backoff, Effects, NewTask, StateKind};
use aedb_worker::testing::{self, Kit, crash_at_each_commit};
use aedb_worker::{Handler, Outcome, TaskContext, TaskError, Worker};

struct Charge;

impl Handler for Charge {
    type Input = u32;
    type Output = String;

    fn name(&self) -> &str {
        "charge"
    }

    async fn run(&self, cents: u32, cx: TaskContext) -> Result<Outcome<String>, TaskError> {
        if cx.attempt() == 1 && cents == 13 {
            return Err(TaskError::new("the bank is busy"));
        }
        cx.checkpoint(&"charged").await?;
        cx.effects().assert_absent("paid").put("paid", cents.to_string());
        Ok(Outcome::done("receipt".to_owned()).then(("q", NewTask::new("mail", &cents)?)))
    }
}

fn worker(kit: &Kit) -> Worker {
    let mail = |_: u32, _: TaskContext| async { Ok(Outcome::done(()).put("mailed", "yes")) };
    Worker::builder(kit.db()).queue("q").task(Charge).handler("mail", mail).build().unwrap()
}

fn charge(cents: u32) -> NewTask {
    Charge.task(&cents).unwrap().backoff(Backoff::exponential(Duration::from_secs(10), Duration::from_secs(60)))
}

#[tokio::test]
async fn a_handler_is_performed_alone_and_its_context_inspected() {
    let (decided, cx) = testing::perform(&Charge, &5).await;
    let outcome = decided.unwrap();
    assert_eq!(outcome.result().map(String::as_str), Some("receipt"));
    assert_eq!((outcome.writes().len(), cx.effects().list().len()), (1, 2));
    assert_eq!(cx.checkpoints()[0].as_str(), "\"charged\"");
    let cx = testing::context("charge", &13).unwrap().attempt(1).progress(&"none").unwrap().build();
    assert!(Charge.run(13, cx).await.is_err());
}

#[tokio::test]
async fn time_passes_only_when_told_to() {
    let kit = Kit::new().unwrap();
    let queue = kit.queue("q").unwrap();
    queue.enqueue(charge(13)).await.unwrap();
    let worker = worker(&kit);
    assert_eq!(kit.drain(&worker).await.unwrap(), 1);
    assert_eq!(kit.drain(&worker).await.unwrap(), 0, "the retry is not due");
    assert_eq!(kit.drain_scheduled(&worker).await.unwrap(), 2);
    kit.queue("q").unwrap().enqueue(NewTask::new("mail", &7).unwrap().delay(Duration::from_hours(1))).await.unwrap();
    kit.assert_enqueued("q", "mail", |cents: &u32| *cents == 7).await;
}

#[tokio::test]
async fn a_lost_lease_writes_nothing_and_the_work_is_done_once() {
    let kit = Kit::new().unwrap();
    let queue = kit.queue("q").unwrap();
    // Its only failure would be its last: a lost lease is none.
    let id = queue.enqueue(charge(5).max_attempts(1)).await.unwrap().id;
    assert_eq!(kit.drain_losing_leases(&worker(&kit)).await.unwrap(), 4, "the task and its follow-up, each twice");
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.counters.lost_leases, record.counters.failures), (StateKind::Done, 1, 0));
}

#[tokio::test]
async fn a_commit_that_fails_is_felt_and_everything_is_as_before() {
    let kit = Kit::new().unwrap();
    let queue = kit.queue("q").unwrap();
    kit.fail_commit(1);
    assert!(queue.enqueue(charge(5)).await.is_err());
    assert_eq!(queue.stats().await.unwrap().ready, 0);
    queue.enqueue(charge(5)).await.unwrap();
    kit.fail_commit(3); // the claim, the checkpoint, then the completion
    let worker = worker(&kit);
    assert!(kit.drain(&worker).await.is_err());
    assert_eq!(queue.stats().await.unwrap().in_flight, 1);
}

#[tokio::test]
async fn an_order_is_paid_and_mailed_once_wherever_it_crashes() {
    let run = |kit: Kit| async move {
        let order = Effects::new().assert_absent("order").put("order", "placed");
        kit.queue("q")?.enqueue_with(charge(5), order).await?;
        kit.drain_scheduled(&worker(&kit)).await.map(drop)
    };
    let check = |kit: Kit| async move {
        kit.drain_scheduled(&worker(&kit)).await.unwrap();
        let kv = kit.db().default_scope().kv();
        let mut there = Vec::new();
        for key in ["order", "paid", "mailed"] {
            there.push(kv.get(key).await.unwrap().is_some());
        }
        assert!(there.iter().all(|all| *all == there[0]), "order, paid, mailed: {there:?}");
    };
    let commits = crash_at_each_commit(run, check).await.unwrap();
    assert!(commits >= 6, "{commits}");
}

#[tokio::test]
async fn a_lease_is_stolen_while_the_handler_runs() {
    let kit = Kit::new().unwrap();
    let queue = kit.queue("q").unwrap();
    let id = queue.enqueue(NewTask::new("slow", &1).unwrap()).await.unwrap().id;
    let (started, gate) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
    let (started, gate) = (std::sync::Arc::new(started), std::sync::Arc::new(gate));
    let (starting, open) = (std::sync::Arc::clone(&started), std::sync::Arc::clone(&gate));
    let slow = move |_: u32, cx: TaskContext| {
        let (starting, open) = (std::sync::Arc::clone(&starting), std::sync::Arc::clone(&open));
        async move {
            if cx.deliveries() == 1 {
                starting.notify_one();
                open.notified().await;
                let refused = cx.checkpoint(&"too late").await.unwrap_err();
                assert_eq!(refused.kind(), aedb_queue::ErrorKind::LeaseLost);
            }
            Ok(Outcome::done(cx.deliveries()).put(format!("delivery:{}", cx.deliveries()), "written"))
        }
    };
    let first = Worker::builder(kit.db()).queue("q").handler("slow", slow).build().unwrap();
    let steal = async {
        started.notified().await;
        kit.steal(&queue, id).await.unwrap();
        gate.notify_one();
    };
    let (ran, ()) = tokio::join!(kit.drain(&first), steal);
    assert_eq!(ran.unwrap(), 2);
    let kv = kit.db().default_scope().kv();
    assert!(kv.get("delivery:1").await.unwrap().is_none() && kv.get("delivery:2").await.unwrap().is_some());
    assert!(kit.steal(&queue, id).await.is_err(), "a task that does not run has no lease to steal");
}
