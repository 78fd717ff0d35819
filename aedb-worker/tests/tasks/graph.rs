//! Follow-ups: declared, typed, drawn and checked.

use aedb_queue::Filter;
use aedb_worker::testing::Kit;
use aedb_worker::{Outcome, TaskContext, TaskError, Worker, task, tasks};

use crate::{builder, worker};

#[task(name = "order.place", alias("place_order"), follow_ups(charge, mail::send))]
async fn place(order: u64) -> Outcome<()> {
    let mut outcome = Outcome::done(()).then(place::charge(order));
    for copy in 0..3 {
        outcome = outcome.then(place::send(mail::Letter { to: format!("{order}-{copy}") }));
    }
    outcome
}

#[task(name = "order.charge")]
async fn charge(order: u64, cx: TaskContext) -> Result<(), TaskError> {
    cx.effects().put(format!("charged:{order}"), "yes");
    Ok(())
}

mod mail {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    pub(super) struct Letter {
        pub(super) to: String,
    }

    #[aedb_worker::task(name = "mail.send", queue = "mail")]
    pub(super) async fn send(letter: Letter, cx: aedb_worker::TaskContext) {
        cx.effects().put(format!("sent:{}", letter.to), "yes");
    }
}

#[tokio::test]
async fn declared_follow_ups_are_enqueued_with_the_completion_each_to_its_own_queue() {
    let kit = Kit::new().unwrap();
    place::enqueue(kit.db(), 7).await.unwrap();
    let worker = builder(kit.db()).queue("mail").tasks(tasks![place, charge, mail::send]).build().unwrap();
    assert_eq!(kit.drain(&worker).await.unwrap(), 5);
    let mail = kit.queue("mail").unwrap().list(Filter::all()).await.unwrap().tasks;
    assert_eq!(mail.len(), 3);
    assert!(kit.db().default_scope().kv().get("sent:7-2").await.unwrap().is_some());
    assert!(kit.db().default_scope().kv().get("charged:7").await.unwrap().is_some());
}

#[tokio::test]
async fn the_graph_is_drawn_as_text_dot_and_mermaid() {
    let kit = Kit::new().unwrap();
    let graph = worker(&kit, tasks![place, charge]).graph();
    assert_eq!(graph.to_string(), "order.charge\norder.place -> order.charge, mail.send\n");
    assert!(graph.dot().contains("    \"order.place\" -> \"mail.send\";\n"), "{}", graph.dot());
    let mermaid = "flowchart LR\n    t0[\"mail.send\"]\n    t1[\"order.charge\"]\n    t2[\"order.place\"]\n    t2 --> t1\n    t2 --> t0\n";
    assert_eq!(graph.mermaid(), mermaid);
}

#[tokio::test]
async fn a_follow_up_that_this_worker_should_run_and_cannot_is_told_when_it_is_built() {
    let kit = Kit::new().unwrap();
    let error = builder(kit.db()).tasks(tasks![place]).build().unwrap_err().to_string();
    assert!(error.contains("order.place is followed by order.charge in the queue default"), "{error}");
    assert!(!error.contains("mail.send"), "another worker may serve the queue mail: {error}");
    let other = |_: String, _: TaskContext| async { Ok(Outcome::done(())) };
    let error = Worker::builder(kit.db()).queue("default").tasks(tasks![place]).handler("order.charge", other).build();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("takes alloc::string::String and is given u64"), "{error}");
}
