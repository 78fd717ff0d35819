//! A file whose bytes were changed: it opens with everything that was acknowledged, or says loudly that it does not.
//!
//! Every 61st byte by default, and each of the header and the end; `AEDB_OFFSETS=1 cargo test -p aedb-tests --test offsets` tries each.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use aedb_queue::{Completion, Db, Filter, NewTask, StateKind, TaskId};
use aedb_tests::claims;
use futures::executor::block_on;

type Acknowledged = BTreeMap<TaskId, (StateKind, String)>;

/// A file with tasks in every state, and what of it was acknowledged.
fn record(file: &Path) -> Acknowledged {
    let db = Db::open(file).unwrap();
    let queue = db.queue("q").unwrap();
    let payload = |n: usize| format!("{n}:{}", "x".repeat(if n.is_multiple_of(7) { 900 } else { 90 }));
    let tasks = (0..60).map(|n| NewTask::new("n", &payload(n)).unwrap().idempotency_key(format!("key {n}"))).collect();
    let ids: Vec<TaskId> = block_on(queue.enqueue_batch(tasks)).unwrap().iter().map(|task| task.id).collect();
    for claim in block_on(queue.claim(claims("w").max(30))).unwrap().iter().take(20) {
        assert!(block_on(queue.complete(claim, Completion::new())).unwrap().is_applied());
    }
    let record = |id: &TaskId| {
        let record = block_on(queue.get(*id)).unwrap().unwrap();
        (*id, (record.state.kind(), record.payload.as_str().to_owned()))
    };
    ids.iter().map(record).collect()
}

/// How a changed file showed itself.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Complete,
    Refused,
    Found,
}

/// Opens a changed file and compares. Panics inside of the engine count as refusals; a silent loss is this test's own.
fn look(file: &Path, acknowledged: &Acknowledged) -> Result<Shown, String> {
    let looked = catch_unwind(AssertUnwindSafe(|| {
        let Ok(db) = Db::builder().existing().open(file) else { return Ok(Shown::Refused) };
        let queue = db.queue("q").unwrap();
        let (mut loud, mut missing) = (false, None);
        for (id, (kind, payload)) in acknowledged {
            match block_on(queue.get(*id)) {
                Ok(Some(record)) if record.payload.as_str() == payload && record.state.kind() == *kind => {}
                Ok(Some(record)) => return Err(format!("{id} is {:?} with another payload", record.state)),
                Ok(None) => missing = Some(*id),
                Err(_) => loud = true,
            }
        }
        let listed = block_on(queue.list(Filter::all()));
        let clean = block_on(queue.check()).is_ok_and(|report| report.is_clean());
        match (missing, loud || !clean || listed.is_err()) {
            (Some(id), false) => Err(format!("{id} is silently gone")),
            (_, true) => Ok(Shown::Found),
            (None, false) => Ok(Shown::Complete),
        }
    }));
    looked.unwrap_or(Ok(Shown::Refused))
}

#[test]
fn a_file_with_changed_bytes_is_complete_or_loud() {
    let stride = std::env::var("AEDB_OFFSETS").ok().and_then(|stride| stride.parse().ok()).unwrap_or(61);
    let folder = tempfile::tempdir().unwrap();
    let (whole, changed) = (folder.path().join("whole.db"), folder.path().join("changed.db"));
    let acknowledged = record(&whole);
    let bytes = fs::read(&whole).unwrap();
    let (mut shown, mut silent) = (BTreeMap::new(), Vec::new());
    // Each byte of the header, which says what the last commit is, and of the end.
    let end = bytes.len() - 512;
    let offsets: BTreeSet<_> = (0..bytes.len()).step_by(stride).chain(0..320).chain(end..bytes.len()).collect();
    for offset in offsets {
        for way in ["cut", "flipped", "zeroed"] {
            let mut bytes = bytes.clone();
            match way {
                "cut" => bytes.truncate(offset),
                "flipped" => bytes[offset] ^= 0x55,
                _ => bytes[offset..].iter_mut().take(512).for_each(|byte| *byte = 0),
            }
            fs::write(&changed, &bytes).unwrap();
            match look(&changed, &acknowledged) {
                Ok(how) => *shown.entry((way, how)).or_insert(0) += 1,
                Err(why) => silent.push(format!("{way} at {offset}: {why}")),
            }
        }
    }
    println!("{shown:?}");
    let cases: i32 = shown.values().sum();
    aedb_tests::tell(
        "bytes of a file cut, flipped, zeroed",
        &format!("{cases} cases, {} lost anything in silence", silent.len()),
    );
    assert!(silent.is_empty(), "{} cases, the first: {:?}", silent.len(), silent.iter().take(10).collect::<Vec<_>>());
}
