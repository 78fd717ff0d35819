//! A dispatcher whose publisher does nothing, beside the core's lifecycle in batches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aedb_queue::{Db, Effects};
use aedb_worker::TaskError;
use aedb_worker::outbox::{Dispatcher, Event, event};
use tempfile::TempDir;

use crate::throughput::core;
use crate::{Row, block_on, open};

const KEYS: usize = 1_000;
const BATCH: usize = 500;

/// Records events in batches, then delivers them all, in order of each key.
async fn dispatch(db: &Db, count: usize) -> Duration {
    let start = Instant::now();
    let kv = db.default_scope().kv();
    let payload = "x".repeat(128);
    for batch in 0..count / BATCH {
        let events = (0..BATCH).map(|n| {
            let number = batch * BATCH + n;
            event("bench", &format!("key-{}", number % KEYS), &(number, &payload)).unwrap()
        });
        kv.commit(events.reduce(Effects::and).unwrap()).await.unwrap();
    }
    let seen = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let seeing = Arc::clone(&seen);
    let publish = move |event: Event| {
        let (number, _): (usize, String) = event.payload.to().unwrap();
        let before = seeing.lock().unwrap().insert(event.key, number);
        assert!(before.is_none_or(|before| before < number), "out of order");
        std::future::ready(Ok::<(), TaskError>(()))
    };
    let dispatcher = Dispatcher::builder(db).topic("bench").publisher(publish).build().unwrap();
    assert_eq!(dispatcher.drain().await.unwrap(), count as u64);
    assert_eq!(seen.lock().unwrap().len(), KEYS.min(count));
    start.elapsed()
}

pub(crate) fn run(folder: &TempDir, quick: bool) -> Vec<Row> {
    let (count, rounds) = if quick { (5_000, 2) } else { (20_000, 5) };
    let (_core, core_queue) = open(folder, "outbox-core.db");
    let (db, _) = open(folder, "outbox.db");
    let (mut alone, mut ours) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..rounds {
        alone += block_on(core(&core_queue, count));
        ours += block_on(dispatch(&db, count));
    }
    let rate = |time: Duration| (rounds * count) as f64 / time.as_secs_f64();
    vec![Row(
        format!("events of {KEYS} keys recorded and dispatched, publisher does nothing"),
        format!(
            "{:.0}/s, {:.2} of the core's lifecycle in batches, {:.0}/s",
            rate(ours),
            rate(ours) / rate(alone),
            rate(alone)
        ),
        "0.5 of the core".into(),
    )]
}
