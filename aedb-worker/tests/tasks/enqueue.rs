//! Calls: where they go, with which defaults, and what they answer.

use std::time::Duration;

use aedb_queue::{Db, Effects, ErrorKind, StateKind};
use aedb_worker::testing::Kit;
use aedb_worker::{Handler, Outcome, TaskError, WaitError, task, tasks};
use serde::{Deserialize, Serialize};

use crate::{builder, worker};

#[derive(Serialize, Deserialize)]
struct Order {
    order: u64,
    customer: String,
}

fn order(order: u64) -> Order {
    Order { order, customer: "ada".to_owned() }
}

#[task(
    name = "billing.charge",
    queue = "billing",
    retry(max = 3, base = "2s", cap = "1m", jitter = 0),
    timeout = "60s",
    lease = "45s",
    priority = 7,
    unique(order, window = "1h"),
    retention = "2d"
)]
async fn charge(order: Order) -> Result<Outcome<u64>, TaskError> {
    if order.order == 13 { Err(TaskError::new("unlucky")) } else { Ok(Outcome::done(order.order * 100)) }
}

#[task(unique(key = (input.customer.as_str(), "welcome")))]
async fn welcome(_order: Order) {}

/// Kept for people: nobody here reads it back.
#[derive(Serialize)]
struct Report<'a>(&'a str);

#[task]
async fn report(_: ()) -> Report<'static> {
    Report("well")
}

#[tokio::test]
async fn a_result_need_not_be_read_back() {
    let kit = Kit::new().unwrap();
    let id = report::enqueue(kit.db(), ()).await.unwrap().id;
    kit.drain(&worker(&kit, tasks![report])).await.unwrap();
    let result = kit.queue("default").unwrap().get(id).await.unwrap().unwrap().result;
    assert_eq!(result.unwrap().as_str(), "\"well\"");
}

#[tokio::test]
async fn a_call_has_the_defaults_of_its_task_and_goes_to_its_queue() {
    let kit = Kit::new().unwrap();
    let first = charge::enqueue(kit.db(), order(1)).await.unwrap();
    let again = charge::enqueue(&kit.db().default_scope(), Order { order: 1, customer: "bob".into() }).await.unwrap();
    assert!(again.deduplicated && again.id == first.id, "one order is charged once");
    let other = charge::enqueue(kit.db(), order(2)).delay(Duration::from_secs(9)).priority(1).key("own").await.unwrap();
    let billing = kit.queue("billing").unwrap();
    let record = billing.get(first.id).await.unwrap().unwrap();
    assert_eq!((&*record.name, record.priority), (charge::NAME, 7));
    let record = billing.get(other.id).await.unwrap().unwrap();
    assert_eq!((record.priority, record.state.kind()), (1, StateKind::Scheduled));
    assert!(charge::enqueue(kit.db(), order(3)).key("own").await.unwrap().deduplicated);
    // A queue that is given is the queue.
    let elsewhere = kit.queue("elsewhere").unwrap();
    charge::enqueue(&elsewhere, order(1)).await.unwrap();
    assert_eq!(elsewhere.stats().await.unwrap().ready, 1);
    assert_eq!((charge::QUEUE, charge {}.name()), ("billing", "billing.charge"));
}

#[tokio::test]
async fn the_key_may_be_an_expression_of_the_input() {
    let kit = Kit::new().unwrap();
    let first = welcome::enqueue(kit.db(), order(1)).await.unwrap();
    assert_eq!(welcome::enqueue(kit.db(), order(2)).await.unwrap().id, first.id);
}

#[tokio::test]
async fn a_task_spends_the_attempts_that_its_attribute_names() {
    let kit = Kit::new().unwrap();
    let id = charge::enqueue(kit.db(), order(13)).await.unwrap().id;
    let worker = aedb_worker::Worker::builder(kit.db()).queue("billing").tasks(tasks![charge]).build().unwrap();
    let before = aedb_queue::Clock::now(kit.clock());
    assert_eq!(kit.drain_scheduled(&worker).await.unwrap(), 3);
    let record = kit.queue("billing").unwrap().get(id).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.failures.len()), (StateKind::Dead, 3));
    assert_eq!(record.failures[2].at.saturating_since(before), Duration::from_secs(6), "2 s, then 4 s");
}

#[tokio::test]
async fn an_enqueue_carries_the_applications_writes() {
    let kit = Kit::new().unwrap();
    let placed = || Effects::new().assert_absent("order:1").put("order:1", "placed");
    charge::enqueue(kit.db(), order(1)).effects(placed()).await.unwrap();
    let refused = charge::enqueue(kit.db(), order(2)).effects(placed()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(kit.queue("billing").unwrap().stats().await.unwrap().ready, 1);
}

#[tokio::test]
async fn calls_are_enqueued_in_batches() {
    let kit = Kit::new().unwrap();
    let enqueued = charge::enqueue_all(kit.db(), (100..130).map(order)).await.unwrap();
    assert_eq!(enqueued.len(), 30);
    let too_many = charge::enqueue_all(kit.db(), (0..10_001).map(order)).await.unwrap_err();
    assert_eq!(too_many.kind(), ErrorKind::TooLarge);
    let calls: Vec<_> = (0..20).map(|n| charge::with(order(n)).into_task().unwrap()).collect();
    kit.queue("billing").unwrap().enqueue_batch(calls).await.unwrap();
    assert_eq!(kit.queue("billing").unwrap().stats().await.unwrap().ready, 50);
}

#[tokio::test]
async fn a_call_cannot_name_one_queue_and_be_given_another() {
    let kit = Kit::new().unwrap();
    let given = kit.queue("given").unwrap();
    let refused = charge::enqueue(&given, order(1)).queue("named").await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("named"), "{refused}");
    charge::enqueue(&given, order(1)).queue("given").await.unwrap();
    charge::enqueue(kit.db(), order(1)).queue("named").await.unwrap();
    assert_eq!(kit.queue("named").unwrap().stats().await.unwrap().ready, 1);
}

#[tokio::test]
async fn a_worker_serves_the_queues_of_its_tasks() {
    let kit = Kit::new().unwrap();
    charge::enqueue(kit.db(), order(1)).await.unwrap();
    welcome::enqueue(kit.db(), order(1)).await.unwrap();
    let worker = aedb_worker::Worker::builder(kit.db()).tasks(tasks![charge, welcome]).build().unwrap();
    assert_eq!(kit.drain(&worker).await.unwrap(), 2);
}

#[tokio::test]
async fn a_caller_waits_for_the_typed_result_or_hears_why_there_is_none() {
    let db = crate::store::fresh(Db::builder());
    let worker = aedb_worker::Worker::builder(&db).queue("billing").tasks(tasks![charge]).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let wait = Duration::from_secs(20);
    assert_eq!(charge::enqueue_and_wait(&db, order(4), wait).await.unwrap(), 400);
    let dead = charge::with(order(13)).edit(|task| task.max_attempts(1)).to(&db).wait(wait).await.unwrap_err();
    assert!(matches!(dead, WaitError::Unfinished { state: Some(StateKind::Dead), .. }));
    assert!(dead.to_string().ends_with("is dead: unlucky"), "{dead}");
    let late = charge::enqueue(&db, order(5)).delay(Duration::from_secs(60)).wait(Duration::from_millis(5)).await;
    assert!(late.unwrap_err().to_string().ends_with("is scheduled"));
    handle.shutdown();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_task_that_is_named_twice_is_told() {
    let kit = Kit::new().unwrap();
    let error = builder(kit.db()).tasks(tasks![welcome]).tasks(tasks![welcome]).build().unwrap_err().to_string();
    assert!(error.contains("two handlers for welcome"), "{error}");
    drop(worker(&kit, tasks![welcome]));
}
