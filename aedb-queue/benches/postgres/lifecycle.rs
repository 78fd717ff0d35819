//! Enqueue, claim, complete in batches of 500, on one connection and on two.

use std::time::{Duration, Instant};

use aedb_queue::{ClaimRequest, Completion, Db, Decision, LeaseLength, Settlement};

use super::floor::{self, Floor};
use super::{BATCH, Row, connection, db, middle, task, wal};

pub(super) async fn run(quick: bool) -> Vec<Row> {
    let (rounds, length) = if quick { (3, Duration::from_millis(700)) } else { (9, Duration::from_secs(3)) };
    let mut rows = Vec::new();
    for connections in [1, 2] {
        floor::lay().await;
        let db = db("bench_lifecycle", connections).await;
        let mut floors = Vec::new();
        for _ in 0..connections {
            floors.push(Floor::connect().await);
        }
        // Once around, so that both are warm.
        ours(&db, connections, length / 3).await;
        plain(&mut floors, length / 3).await;
        let (mut ratios, mut us, mut it) = (Vec::new(), Vec::new(), Vec::new());
        let (mut bytes, mut trips, mut passed) = (0.0, 0.0, 0.0);
        for _ in 0..rounds {
            let (wal_before, trips_before) = (wal().await, transactions().await);
            let own = ours(&db, connections, length).await;
            bytes += wal().await - wal_before;
            trips += transactions().await - trips_before;
            passed += own * length.as_secs_f64();
            let floor = plain(&mut floors, length).await;
            us.push(own);
            it.push(floor);
            ratios.push(own / floor);
        }
        let (own, floor, ratio) = (middle(&mut us), middle(&mut it), middle(&mut ratios));
        println!("{connections} connections: {own:.0}/s of {floor:.0}/s, ratios {ratios:.2?}");
        rows.push(Row(
            format!(
                "full lifecycle, batches of {BATCH}, {connections} connection{}",
                if connections > 1 { "s" } else { "" }
            ),
            format!("{own:.0}/s, {ratio:.2} of the plain statements' {floor:.0}/s"),
            "0.85 of the plain statements".into(),
        ));
        rows.push(Row(
            "the same: log written and commits, each task".into(),
            format!("{:.0} bytes, {:.4}", bytes / passed, trips / passed),
            "1,024 bytes, 0.02".into(),
        ));
    }
    rows
}

/// Commits of the whole server so far: each call is one, and so is each round trip.
async fn transactions() -> f64 {
    let mut conn = connection().await;
    sqlx::query("select pg_stat_force_next_flush()").execute(&mut conn).await.unwrap();
    let text = "select xact_commit::float8 from pg_stat_database where datname = current_database()";
    sqlx::query_scalar(text).fetch_one(&mut conn).await.unwrap()
}

async fn plain(floors: &mut [Floor], length: Duration) -> f64 {
    let began = Instant::now();
    let each = floors.iter_mut().map(|floor| async move {
        let mut done = 0;
        while began.elapsed() < length {
            done += floor.batch().await;
        }
        done
    });
    let done: usize = futures::future::join_all(each).await.into_iter().sum();
    done as f64 / began.elapsed().as_secs_f64()
}

async fn ours(db: &Db, connections: u32, length: Duration) -> f64 {
    let began = Instant::now();
    let each = (0..connections).map(|n| async move {
        let (queue, mut done) = (db.queue("q").unwrap(), 0);
        while began.elapsed() < length {
            queue.enqueue_batch(vec![task(); BATCH]).await.unwrap();
            let request = ClaimRequest::new(format!("w{n}"), LeaseLength::secs(30)).max(BATCH);
            let claims = queue.claim(request).await.unwrap();
            let items = claims.iter().map(|claim| Settlement::new(claim, Decision::Complete(Completion::new())));
            let answers = queue.settle(items.collect()).await.unwrap();
            done += answers.into_iter().filter(|answer| answer.as_ref().unwrap().is_applied()).count();
        }
        done
    });
    let done: usize = futures::future::join_all(each).await.into_iter().sum();
    done as f64 / began.elapsed().as_secs_f64()
}
