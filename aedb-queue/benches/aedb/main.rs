//! What the queue costs inside of AEDB, beside AEDB's own queue calls on the same instance in the same run, one after the other.
//!
//! `cargo bench -p aedb-queue --features aedb --bench aedb` prints one table. AEDB itself takes minutes to build.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use aedb::config::AedbConfig;
use aedb::{AedbInstance, EnqueueOptions, FencedCommit};
use aedb_queue::{ClaimRequest, Completion, Db, Decision, LeaseLength, NewTask, Queue, Settlement, open_aedb};

const BATCH: usize = 500;
const CALLERS: usize = 64;

fn payload() -> String {
    "x".repeat(128)
}

fn task() -> NewTask {
    NewTask::new("bench.task", &payload()).unwrap()
}

fn options() -> EnqueueOptions {
    EnqueueOptions { payload_json: format!("{:?}", payload()), ..EnqueueOptions::default() }
}

/// Tasks through their life in batches.
async fn ours(queue: &Queue, tasks: usize) {
    queue.enqueue_batch(vec![task(); tasks]).await.unwrap();
    let claimed = queue.claim(ClaimRequest::new("bench", LeaseLength::secs(60)).max(tasks)).await.unwrap();
    assert_eq!(claimed.len(), tasks);
    let done = claimed.iter().map(|task| Settlement::new(task, Decision::Complete(Completion::new()))).collect();
    assert!(queue.settle(done).await.unwrap().iter().all(|answer| answer.as_ref().unwrap().is_applied()));
}

/// The same by AEDB's calls, which take one task each; it claims in one call.
async fn theirs(instance: &AedbInstance, tasks: usize) {
    for _ in 0..tasks {
        instance.queue_enqueue("p", "s", "theirs", options(), Vec::new()).await.unwrap();
    }
    let claimed = instance.queue_claim("p", "s", "theirs", "bench", 60_000_000, tasks).await.unwrap();
    assert_eq!(claimed.len(), tasks);
    for task in claimed {
        let (id, token) = (task.task_id, task.fencing_token);
        let done = instance.queue_complete("p", "s", "theirs", &id, token, String::new(), Vec::new(), Vec::new()).await;
        assert!(matches!(done.unwrap(), FencedCommit::Applied(_)));
    }
}

/// Many callers with one task each call: how long it took, and how many calls failed.
async fn callers<F: Future<Output = bool> + Send>(
    each: usize,
    call: impl Fn() -> F + Clone + Send + 'static,
) -> (Duration, usize) {
    let start = Instant::now();
    let calls: Vec<_> = (0..CALLERS)
        .map(|_| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut failed = 0;
                for _ in 0..each {
                    failed += usize::from(!call().await);
                }
                failed
            })
        })
        .collect();
    let mut failed = 0;
    for call in calls {
        failed += call.await.unwrap();
    }
    (start.elapsed(), failed)
}

async fn run(quick: bool) {
    let folder = tempfile::tempdir_in(".").unwrap();
    let instance: Arc<AedbInstance> =
        open_aedb(AedbConfig::default(), folder.path(), AedbInstance::open_anonymous).await.unwrap();
    let queue = Db::aedb(Arc::clone(&instance)).unwrap().scope("p", "s").unwrap().queue("ours").unwrap();
    ours(&queue, BATCH).await;
    theirs(&instance, 10).await;
    let (mut own, mut other, mut own_tasks, mut other_tasks) = (Duration::ZERO, Duration::ZERO, 0, 0);
    for _ in 0..if quick { 2 } else { 10 } {
        let start = Instant::now();
        for _ in 0..4 {
            ours(&queue, BATCH).await;
        }
        (own, own_tasks) = (own + start.elapsed(), own_tasks + 4 * BATCH);
        let start = Instant::now();
        theirs(&instance, 100).await;
        (other, other_tasks) = (other + start.elapsed(), other_tasks + 100);
    }
    let rate = |tasks: usize, time: Duration| tasks as f64 / time.as_secs_f64();
    let (own, other) = (rate(own_tasks, own), rate(other_tasks, other));
    println!("\n| measured | result | wanted |\n|---|---|---|");
    println!(
        "| full lifecycle, batches of {BATCH} | {own:.0}/s, {:.1} times AEDB's own calls, {other:.0}/s | 10 times |",
        own / other
    );
    let each = if quick { 5 } else { 50 };
    let ours = callers(each, move || {
        let queue = queue.clone();
        async move { queue.enqueue(task()).await.is_ok() }
    });
    let (time, failed) = ours.await;
    let theirs = callers(each, move || {
        let instance = Arc::clone(&instance);
        async move { instance.queue_enqueue("p", "s", "theirs", options(), Vec::new()).await.is_ok() }
    });
    let (their_time, their_failed) = theirs.await;
    let calls = CALLERS * each;
    println!(
        "| enqueue, {CALLERS} callers on one queue | {:.0}/s, {failed} of {calls} failed; AEDB's own: {:.0}/s, {their_failed} of {calls} failed | none failed |",
        rate(calls - failed, time),
        rate(calls - their_failed, their_time)
    );
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(run(quick));
}
