//! Several queues, and what handlers decide beside done and failed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedb_queue::{Db, NewTask, StateKind};
use aedb_worker::{Outcome, TaskContext, Worker};

use crate::{on, one_task, task};

/// The order in which tasks of two queues with the same work are run.
async fn order(build: impl Fn(aedb_worker::WorkerBuilder) -> aedb_worker::WorkerBuilder) -> Vec<String> {
    let db = crate::store::fresh(Db::builder());
    for queue in ["a", "b"] {
        db.queue(queue).unwrap().enqueue_batch(vec![task("n"); 40]).await.unwrap();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&seen);
    let note = move |_: u32, cx: TaskContext| {
        noting.lock().unwrap().push(cx.queue().to_owned());
        std::future::ready(Ok(Outcome::done(())))
    };
    let worker = build(Worker::builder(&db)).handler("n", note).concurrency(1).build().unwrap();
    worker.drain().await.unwrap();
    Arc::try_unwrap(seen).unwrap().into_inner().unwrap()
}

#[tokio::test]
async fn queues_share_by_their_weights_and_a_strict_order_is_kept() {
    let weighted = order(|worker| worker.weighted_queue("a", 3).weighted_queue("b", 1)).await;
    let share = weighted.iter().take(40).filter(|queue| *queue == "a").count();
    assert!((29..=31).contains(&share), "{share} of the first 40");
    let strict = order(|worker| worker.queue("b").queue("a").strict_order()).await;
    assert_eq!(strict.iter().position(|queue| queue == "a"), Some(40));
}

#[tokio::test]
async fn an_idle_worker_of_several_queues_is_woken_by_any_of_them() {
    let db = crate::store::fresh(Db::builder());
    let names: Vec<_> = (0..5).map(|n| format!("queue-{n}")).collect();
    let builder = names.iter().fold(Worker::builder(&db), |builder, name| builder.queue(name));
    // Fewer slots than queues: then the waiting takes turns.
    let worker = builder.handler("n", |_: u32, _| async { Ok(Outcome::done(())) }).concurrency(2).build().unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    for name in &names {
        let queue = db.queue(name).unwrap();
        let id = queue.enqueue(task("n")).await.unwrap().id;
        let ended = queue.wait_for(id, Duration::from_secs(10)).await.unwrap().finished().unwrap();
        assert_eq!((ended.state.kind(), ended.counters.deliveries), (StateKind::Done, 1));
    }
    handle.shutdown();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_handler_discards_snoozes_and_goes_on_with_new_input() {
    let (db, queue, discarded) = one_task().await;
    let snoozed = queue.enqueue(task("snooze")).await.unwrap().id;
    let counted = queue.enqueue(NewTask::new("count", &3).unwrap()).await.unwrap().id;
    let snooze = |_: u32, cx: TaskContext| async move {
        let again = cx.deliveries() < 3;
        Ok(if again { Outcome::snooze(Duration::ZERO) } else { Outcome::done(()) })
    };
    let count = |left: u32, cx: TaskContext| async move {
        cx.effects().put(format!("left:{left}"), "yes");
        if left == 0 { Ok(Outcome::done("end")) } else { Ok(Outcome::continue_with(&(left - 1))?) }
    };
    let worker = on(&db)
        .handler("n", |_: u32, _| async {
            Ok(Outcome::<()>::discard("the order was withdrawn").put("never", "written"))
        })
        .handler("snooze", snooze)
        .handler("count", count);
    worker.build().unwrap().drain().await.unwrap();
    let record = queue.get(discarded).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.counters.failures), (StateKind::Cancelled, 0));
    assert!(queue.explain(discarded).await.unwrap().to_string().contains("the order was withdrawn"));
    let record = queue.get(snoozed).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.counters.snoozes, record.counters.attempts), (StateKind::Done, 2, 1));
    let record = queue.get(counted).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.result.unwrap().as_str()), (StateKind::Done, "\"end\""));
    let kv = db.default_scope().kv();
    for left in 0..=3 {
        assert!(kv.get(format!("left:{left}")).await.unwrap().is_some());
    }
    assert!(kv.get("never").await.unwrap().is_none());
}

#[tokio::test]
async fn handlers_share_state_by_type_and_follow_ups_inherit_the_trace() {
    let (db, queue, _) = one_task().await;
    let first = task("first").metadata("traceparent", "00-0af7-b7ad-01");
    queue.enqueue(first).await.unwrap();
    let share = |_: u32, cx: TaskContext| async move {
        let greeting: Arc<String> = cx.state()?;
        let missing = cx.state::<u64>().unwrap_err().to_string();
        Ok(Outcome::done(format!("{greeting}; {missing}")))
    };
    let follow = |_: u32, cx: TaskContext| async move {
        cx.enqueue("q", task("second"));
        cx.enqueue("q", task("second").metadata("traceparent", "own"));
        Ok(Outcome::done(()))
    };
    let second = |_: u32, cx: TaskContext| async move {
        let key = format!("trace:{}", cx.metadata("traceparent").unwrap_or("none"));
        Ok(Outcome::done(()).put(key, "seen"))
    };
    let worker =
        on(&db).handler("n", share).handler("first", follow).handler("second", second).state("hello".to_owned());
    worker.build().unwrap().drain().await.unwrap();
    let kv = db.default_scope().kv();
    assert!(kv.get("trace:00-0af7-b7ad-01").await.unwrap().is_some() && kv.get("trace:own").await.unwrap().is_some());
    let done = queue.list(aedb_queue::Filter::state(StateKind::Done).name("n")).await.unwrap().tasks;
    let result: String = done[0].result.as_ref().unwrap().to().unwrap();
    assert_eq!(result, "hello; no state of type u64: add it with .state(value)");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_block_run_on_their_own_threads_and_hear_of_the_stop() {
    let (db, queue, id) = one_task().await;
    let wait = |_: u32, cx: TaskContext| {
        cx.effects().put("k", "v");
        if cx.deliveries() == 2 {
            return Ok(Outcome::done(()));
        }
        while !cx.is_cancelled() {
            std::thread::yield_now();
        }
        Err(aedb_worker::TaskError::new("stopped half way"))
    };
    let worker = || on(&db).blocking("n", wait).build().unwrap();
    let queue_of = queue.clone();
    worker()
        .run_until(async move { crate::until(|| async { queue_of.stats().await.unwrap().in_flight == 1 }).await })
        .await
        .unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state.kind(), record.counters.failures), (StateKind::Ready, 0));
    worker().drain().await.unwrap();
    assert_eq!(queue.get(id).await.unwrap().unwrap().state.kind(), StateKind::Done);
}
