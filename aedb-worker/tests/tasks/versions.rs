//! Tasks that changed between releases.

use aedb_queue::{Json, NewTask, StateKind};
use aedb_worker::testing::Kit;
use aedb_worker::{Outcome, task, tasks};
use serde::{Deserialize, Serialize};

use crate::worker;

/// Today's input; the first release had a bare number.
#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    express: bool,
}

#[task(name = "order.ship", alias("ship_order", "orders.ship"), version = 2, upgrade = older)]
async fn ship(order: Order) -> String {
    format!("{} {}", order.number, order.express)
}

fn older(version: u32, payload: Json) -> Result<Order, aedb_queue::Error> {
    assert_eq!(version, 1);
    Ok(Order { number: payload.to()?, express: false })
}

#[tokio::test]
async fn tasks_of_earlier_names_and_forms_are_still_run() {
    let kit = Kit::new().unwrap();
    let queue = kit.queue("default").unwrap();
    queue.enqueue(NewTask::new("ship_order", &1).unwrap()).await.unwrap();
    queue.enqueue(NewTask::new("orders.ship", &2).unwrap()).await.unwrap();
    queue.enqueue(NewTask::new("order.ship", "no number").unwrap()).await.unwrap();
    ship::enqueue(kit.db(), Order { number: 3, express: true }).await.unwrap();
    kit.drain(&worker(&kit, tasks![ship])).await.unwrap();
    let mut results = Vec::new();
    let mut failures = Vec::new();
    for task in queue.list(aedb_queue::Filter::all()).await.unwrap().tasks {
        match task.state.kind() {
            StateKind::Done => results.push(task.result.unwrap().to::<String>().unwrap()),
            _ => failures.push(task.failures[0].error.to_string()),
        }
    }
    results.sort();
    assert_eq!(results, ["1 false", "2 false", "3 true"]);
    assert!(failures[0].contains("older version could not be upgraded"), "{failures:?}");
}

#[tokio::test]
async fn an_earlier_name_that_another_task_has_is_told() {
    #[task]
    async fn ship_order(_: u64) {}
    let kit = Kit::new().unwrap();
    let error = crate::builder(kit.db()).tasks(tasks![ship, ship_order]).build().unwrap_err().to_string();
    assert!(error.contains("two handlers for ship_order"), "{error}");
}

/// Counts down, one attempt a step; the first release had a bare number.
#[task(version = 2, upgrade = with_steps)]
async fn count((left, steps): (u64, u64)) -> Result<Outcome<u64>, aedb_queue::Error> {
    if left == 0 { Ok(Outcome::done(steps)) } else { Outcome::continue_with(&(left - 1, steps + 1)) }
}

fn with_steps(_: u32, payload: Json) -> Result<(u64, u64), aedb_queue::Error> {
    Ok((payload.to()?, 0))
}

#[tokio::test]
async fn a_task_of_an_earlier_form_goes_on_in_todays_form() {
    let kit = Kit::new().unwrap();
    let queue = kit.queue("default").unwrap();
    let id = queue.enqueue(NewTask::new("count", &3).unwrap()).await.unwrap().id;
    assert_eq!(kit.drain(&worker(&kit, tasks![count])).await.unwrap(), 4);
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!(record.result.unwrap().as_str(), "3", "{:?}", record.failures);
}

#[tokio::test]
async fn a_form_that_is_newer_than_the_worker_waits_for_another_and_is_charged_nothing() {
    let kit = Kit::new().unwrap();
    let queue = kit.queue("default").unwrap();
    let newer = |payload| NewTask::with_json("count", Json::parse(payload).unwrap()).metadata("aedb.version", "3");
    let unreadable = queue.enqueue(newer("\"three\"")).await.unwrap().id;
    let readable = queue.enqueue(newer("[0,7]")).await.unwrap().id;
    kit.drain(&worker(&kit, tasks![count])).await.unwrap();
    let record = queue.get(unreadable).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.counters.failures), (StateKind::Scheduled, 0));
    assert_eq!(queue.get(readable).await.unwrap().unwrap().result.unwrap().as_str(), "7");
}
