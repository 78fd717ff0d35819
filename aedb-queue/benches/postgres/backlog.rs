//! A claim in front of millions, and one while another session pins old rows.

use std::time::{Duration, Instant};

use aedb_queue::{ClaimRequest, ClaimedTask, Completion, Db, Decision, LeaseLength, Queue, Settlement};
use sqlx::{Connection, Executor};

use super::{Row, connection, db, middle, millis, task};

pub(super) async fn run(quick: bool) -> Vec<Row> {
    vec![millions(if quick { 50_000 } else { 1_000_000 }, quick).await, pinned(quick).await]
}

async fn claim(queue: &Queue, max: usize) -> Vec<ClaimedTask> {
    queue.claim(ClaimRequest::new("w", LeaseLength::secs(300)).max(max)).await.unwrap()
}

async fn complete(queue: &Queue, claims: &[ClaimedTask]) {
    let items = claims.iter().map(|claim| Settlement::new(claim, Decision::Complete(Completion::new())));
    queue.settle(items.collect()).await.unwrap();
}

/// Enqueues a hundred, and takes the time of the claim that gets as many.
async fn timed(queue: &Queue) -> Duration {
    queue.enqueue_batch(vec![task(); 100]).await.unwrap();
    let began = Instant::now();
    let claims = claim(queue, 100).await;
    let took = began.elapsed();
    assert_eq!(claims.len(), 100);
    complete(queue, &claims).await;
    took
}

async fn fill(db: &Db, count: usize) {
    let queue = db.queue("q").unwrap();
    for _ in 0..count / 10_000 {
        queue.enqueue_batch(vec![task().priority(1); 10_000]).await.unwrap();
        let claims = claim(&queue, 10_000).await;
        complete(&queue, &claims).await;
        queue.enqueue_batch(vec![task(); 10_000]).await.unwrap();
        queue.enqueue_batch(vec![task().delay(Duration::from_hours(9_000)); 10_000]).await.unwrap();
    }
}

async fn millions(count: usize, quick: bool) -> Row {
    let (empty, full) = (db("bench_empty", 1).await, db("bench_full", 1).await);
    fill(&full, count).await;
    // The rest after such a load, which the server would take in the background: what is measured is the claim.
    let mut conn = connection().await;
    conn.execute("vacuum analyze").await.unwrap();
    conn.execute("checkpoint").await.unwrap();
    let queues = [empty.queue("q").unwrap(), full.queue("q").unwrap()];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..if quick { 20 } else { 120 } {
        for (queue, times) in queues.iter().zip(&mut times) {
            let took = timed(queue).await;
            if round >= 10 {
                times.push(took);
            }
        }
    }
    let [none, many] = times.map(|mut times| middle(&mut times));
    Row(
        format!("claim of 100 in front of {count} waiting, {count} scheduled, {count} finished"),
        format!(
            "{}, {:.2} of {} in front of none",
            millis(many),
            many.as_secs_f64() / none.as_secs_f64(),
            millis(none)
        ),
        "1.5".into(),
    )
}

async fn pinned(quick: bool) -> Row {
    let db = db("bench_pinned", 1).await;
    let queue = db.queue("q").unwrap();
    for _ in 0..30 {
        timed(&queue).await;
    }
    let mut conn = connection().await;
    let mut txn = conn.begin().await.unwrap();
    txn.execute("set transaction isolation level repeatable read; select count(*) from bench_pinned.ready")
        .await
        .unwrap();
    let passes = if quick { 60 } else { 600 };
    let mut times = Vec::new();
    for _ in 0..passes {
        times.push(timed(&queue).await);
    }
    txn.rollback().await.unwrap();
    let (first, last) =
        (middle(&mut times[..passes / 10].to_vec()), middle(&mut times[passes - passes / 10..].to_vec()));
    Row(
        format!("claim of 100 while an old snapshot is held, after {} tasks", passes * 100),
        format!("{}, {:.2} of {} at its start", millis(last), last.as_secs_f64() / first.as_secs_f64(), millis(first)),
        "1.5".into(),
    )
}
