//! The full lifecycle in batches of 500, beside the floor.

use std::time::{Duration, Instant};

use aedb_queue::{ClaimRequest, Completion, Db, Decision, LeaseLength, NewTask, Queue, Settlement};
use futures::executor::block_on;
use tempfile::TempDir;

use crate::floor::Floor;
use crate::{Row, file, task};

const BATCH: usize = 500;

/// One batch through its life.
pub(crate) async fn cycle(queue: &Queue, task: &NewTask) -> usize {
    queue.enqueue_batch(vec![task.clone(); BATCH]).await.unwrap();
    let claimed = queue.claim(ClaimRequest::new("bench", LeaseLength::secs(60)).max(BATCH)).await.unwrap();
    let done = claimed.iter().map(|task| Settlement::new(task, Decision::Complete(Completion::new()))).collect();
    queue.settle(done).await.unwrap().into_iter().filter(|answer| answer.as_ref().is_ok_and(|a| a.is_applied())).count()
}

pub(crate) fn run(folder: &TempDir, quick: bool) -> Vec<Row> {
    let rounds = if quick { 20 } else { 120 };
    let db = Db::open(file(folder, "lifecycle.db")).unwrap();
    let queue = db.queue("bench").unwrap();
    let mut floor = Floor::open(&file(folder, "floor.db"));
    let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
    let task = task();
    for _ in 0..rounds {
        let start = Instant::now();
        assert_eq!(block_on(cycle(&queue, &task)), BATCH);
        ours += start.elapsed();
        let start = Instant::now();
        floor.enqueue(BATCH as u64);
        let ids = floor.claim(BATCH);
        floor.complete(&ids);
        theirs += start.elapsed();
    }
    let rate = |time: Duration| (rounds * BATCH) as f64 / time.as_secs_f64();
    let ratio = rate(ours) / rate(theirs);
    vec![Row(
        format!("full lifecycle, batches of {BATCH}"),
        format!("{:.0}/s, {ratio:.2} of the floor's {:.0}/s", rate(ours), rate(theirs)),
        "0.85 of the floor".into(),
    )]
}
