//! Many callers that enqueue one task each call.

use std::time::{Duration, Instant};

use aedb_queue::Db;

use super::{Row, address, db, middle, task};

pub(super) async fn run(quick: bool) -> Vec<Row> {
    let (rounds, length) = if quick { (3, Duration::from_millis(700)) } else { (5, Duration::from_secs(3)) };
    let alone = db("bench_callers", 10).await;
    let builder = Db::builder().schema("bench_callers").connections(10).gather_enqueues();
    let gathered = builder.connect(&address()).await.unwrap();
    let mut rates = Vec::new();
    for (callers, db) in [(1, &alone), (64, &alone), (64, &gathered)] {
        let mut each = Vec::new();
        for _ in 0..rounds {
            let began = Instant::now();
            let calls = (0..callers).map(|_| async {
                let (queue, mut done) = (db.queue("q").unwrap(), 0);
                while began.elapsed() < length {
                    queue.enqueue(task()).await.unwrap();
                    done += 1;
                }
                done
            });
            let done: u32 = futures::future::join_all(calls).await.into_iter().sum();
            each.push(f64::from(done) / began.elapsed().as_secs_f64());
        }
        rates.push(middle(&mut each));
    }
    let [one, each, shared] = rates[..] else { unreachable!() };
    vec![Row(
        "enqueue, 64 callers, one task each call".into(),
        format!(
            "{shared:.0}/s gathered, {:.1} times {each:.0}/s with a commit each; one caller {one:.0}/s",
            shared / each
        ),
        "-".into(),
    )]
}
