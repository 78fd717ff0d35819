//! Many callers that enqueue one task each call.

use std::time::{Duration, Instant};

use super::{Row, db, middle, task};

pub(super) async fn run(quick: bool) -> Vec<Row> {
    let (rounds, length) = if quick { (3, Duration::from_millis(700)) } else { (5, Duration::from_secs(3)) };
    let db = db("bench_callers", 10).await;
    let mut rates = Vec::new();
    for callers in [1, 64] {
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
    vec![Row(
        "enqueue, 64 callers, one task each call".into(),
        format!("{:.0}/s, {:.1} times one caller's {:.0}/s", rates[1], rates[1] / rates[0], rates[0]),
        "-".into(),
    )]
}
