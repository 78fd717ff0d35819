//! What a worker counts, through the `metrics` facade.

use aedb_queue::Db;
use aedb_worker::{Outcome, TaskContext, TaskError};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::{task, until};

#[tokio::test]
async fn attempts_outcomes_and_depths_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    recorder.install().unwrap();
    let db = crate::store::fresh(Db::builder());
    let queue = db.queue("measured").unwrap();
    queue.enqueue_batch(vec![task("good"), task("good"), task("bad")]).await.unwrap();
    queue.enqueue(task("later").delay(std::time::Duration::from_secs(3600))).await.unwrap();
    let worker = aedb_worker::Worker::builder(&db)
        .queue("measured")
        .handler("good", |_: u32, _: TaskContext| async { Ok(Outcome::done(())) })
        .handler("bad", |_: u32, _| async { Err::<Outcome, _>(TaskError::new("boom").fatal()) })
        .poll_interval(std::time::Duration::from_millis(10))
        .build()
        .unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    // Depths are told by the sweep, after everything else.
    let seen = std::cell::RefCell::new(std::collections::BTreeMap::new());
    until(|| async {
        for (key, _, _, value) in snapshots.snapshot().into_vec() {
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            if labels.iter().any(|label| label == "queue=measured") {
                let value = match value {
                    DebugValue::Counter(count) => count.to_string(),
                    DebugValue::Gauge(value) => value.to_string(),
                    DebugValue::Histogram(values) => format!("{} values", values.len()),
                };
                // A snapshot takes counters back to zero; the first one that is not is what was counted.
                let name = format!("{} {}", key.key().name(), labels.join(" "));
                let mut seen = seen.borrow_mut();
                if value != "0" && value != "0 values" {
                    seen.insert(name, value);
                }
            }
        }
        seen.borrow().keys().any(|name| name.contains("state=dead"))
    })
    .await;
    handle.shutdown();
    running.await.unwrap().unwrap();
    let seen = seen.into_inner();
    for (name, value) in [
        ("aedb_claimed_total queue=measured task=bad", "1"),
        ("aedb_finished_total queue=measured task=bad outcome=dead", "1"),
        ("aedb_queue_depth queue=measured state=scheduled", "1"),
        ("aedb_queue_depth queue=measured state=dead", "1"),
        ("aedb_wait_seconds queue=measured task=bad", "1 values"),
        ("aedb_run_seconds queue=measured task=bad", "1 values"),
    ] {
        assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name} in {seen:#?}");
    }
}
