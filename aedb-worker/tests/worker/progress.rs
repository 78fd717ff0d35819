//! Checkpoints, throttled and not: the last one is there for the next attempt, whatever ended this one.

use std::sync::Arc;
use std::time::Duration;

use aedb_queue::StateKind;
use aedb_worker::testing::{Faults, Verb};
use aedb_worker::{Outcome, TaskContext, TaskError};
use tokio::sync::Notify;

use crate::{on, one_task};

/// Records 1 to 100 in the first delivery, ends so, and answers what the second delivery sees.
async fn seen_after(end: &'static str, throttle: Duration) -> u32 {
    let (db, queue, id) = one_task().await;
    let recorded = Arc::new(Notify::new());
    let recording = Arc::clone(&recorded);
    let steps = move |_: u32, cx: TaskContext| {
        let recording = Arc::clone(&recording);
        async move {
            if cx.deliveries() > 1 {
                return Ok(Outcome::done(cx.progress::<u32>()?.unwrap_or(0)));
            }
            for step in 1..=100 {
                cx.checkpoint(&step).await?;
            }
            assert_eq!(cx.progress::<u32>()?, Some(100));
            recording.notify_one();
            match end {
                "error" => Err(TaskError::new("boom")),
                "panic" => panic!("boom"),
                "snooze" => Ok(Outcome::snooze(Duration::ZERO)),
                _ => std::future::pending().await,
            }
        }
    };
    let worker = |timeout| {
        let worker = on(&db).handler("n", steps.clone()).timeout(timeout);
        worker.checkpoint_every(throttle).grace(Duration::ZERO).build().unwrap()
    };
    if end == "shutdown" {
        worker(Duration::from_secs(60)).run_until(async { recorded.notified().await }).await.unwrap();
    }
    worker(Duration::from_millis(500)).drain().await.unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!(record.state.kind(), StateKind::Done, "{end}: {:?}", record.failures);
    record.result.unwrap().to().unwrap()
}

#[tokio::test]
async fn c44_c61_the_last_checkpoint_survives_every_end_of_an_attempt() {
    for throttle in [Duration::ZERO, Duration::from_secs(30)] {
        for end in ["error", "panic", "timeout", "shutdown", "snooze"] {
            assert_eq!(seen_after(end, throttle).await, 100, "{end}, throttled by {throttle:?}");
        }
    }
}

#[tokio::test]
async fn throttled_checkpoints_are_written_in_their_time_and_not_each() {
    let (db, queue, id) = one_task().await;
    let faults = Faults::new();
    let watching = queue.clone();
    let handler = move |_: u32, cx: TaskContext| {
        let watching = watching.clone();
        async move {
            for step in 1..=50 {
                cx.checkpoint(&step).await?;
            }
            crate::until(|| async {
                let progress = watching.get(id).await.unwrap().unwrap().progress;
                progress.is_some_and(|progress| progress.to::<u32>().unwrap() == 50)
            })
            .await;
            Ok(Outcome::done(()))
        }
    };
    let beats = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = Arc::clone(&beats);
    faults.plan(move |call| {
        count.fetch_add(u32::from(call.verb == Verb::Heartbeat), std::sync::atomic::Ordering::SeqCst);
        None
    });
    let worker = on(&faults.on(&db)).handler("n", handler).checkpoint_every(Duration::from_millis(200));
    worker.build().unwrap().drain().await.unwrap();
    assert!(beats.load(std::sync::atomic::Ordering::SeqCst) <= 3);
}
