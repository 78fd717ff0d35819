//! Many callers, each enqueuing one task at a time.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use aedb_queue::{Db, Queue};
use futures::executor::block_on;
use tempfile::TempDir;

use crate::floor::Floor;
use crate::{Row, file, task};

/// Tasks a second that so many callers enqueue together, and how many calls failed.
fn callers(queue: &Queue, count: usize, each: usize) -> (f64, usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let start = Instant::now();
    let failed = runtime.block_on(async {
        let calls: Vec<_> = (0..count)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut failed = 0;
                    for _ in 0..each {
                        failed += usize::from(queue.enqueue(task()).await.is_err());
                    }
                    failed
                })
            })
            .collect();
        let mut failed = 0;
        for call in calls {
            failed += call.await.unwrap();
        }
        failed
    });
    ((count * each) as f64 / start.elapsed().as_secs_f64(), failed)
}

fn batched(queue: &Queue, rounds: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..rounds {
        block_on(queue.enqueue_batch((0..500).map(|_| task()).collect())).unwrap();
    }
    (rounds * 500) as f64 / start.elapsed().as_secs_f64()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

pub(crate) fn run(folder: &TempDir, quick: bool) -> Vec<Row> {
    let scale = if quick { 1 } else { 8 };
    let db = Db::open(file(folder, "callers.db")).unwrap();
    let queue = db.queue("bench").unwrap();
    batched(&queue, 4);
    let all_at_once = batched(&queue, 20 * scale);
    let (many, failed) = callers(&queue, 256, 20 * scale);
    let (some, _) = callers(&queue, 32, 40 * scale);
    let mut floor = Floor::open(&file(folder, "one.db"));
    let mut disk = File::create(file(folder, "sync")).unwrap();
    let (mut ours, mut theirs, mut of_32, mut syncs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let time = |times: &mut Vec<Duration>, work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        times.push(start.elapsed());
    };
    for _ in 0..100 * scale {
        time(&mut ours, &mut || assert!(block_on(queue.enqueue(task())).is_ok()));
        time(&mut theirs, &mut || drop(floor.enqueue(1)));
        time(&mut of_32, &mut || drop(floor.enqueue(32)));
        disk.write_all(&[7; 4096]).unwrap();
        time(&mut syncs, &mut || rustix::fs::fdatasync(&disk).unwrap());
    }
    let (ours, theirs, of_32, sync) = (median(ours), median(theirs), median(of_32), median(syncs));
    vec![
        Row(
            "enqueue, 256 callers, one task each call".into(),
            format!("{many:.0}/s, {:.2} of batched {all_at_once:.0}/s, {failed} failed", many / all_at_once),
            "0.4 of batched, none failed".into(),
        ),
        Row(
            "enqueue, one caller, one task each call".into(),
            format!("{ours:.0?}, {:.2} of one redb commit of {theirs:.0?}", ours.as_secs_f64() / theirs.as_secs_f64()),
            "1.3 of one commit".into(),
        ),
        Row(
            "enqueue, 32 callers, one task each call".into(),
            format!("{some:.0}/s; a redb commit of 32 takes {of_32:.0?}, a bare fdatasync {sync:.0?}"),
            "-".into(),
        ),
    ]
}
