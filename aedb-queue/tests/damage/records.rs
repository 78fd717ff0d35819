//! Damaged records and long values, and index entries that were lost.

use aedb_queue::{DeadReason, Filter, TaskState};
use futures::executor::block_on;

use crate::file::{claim, damaged, flip, lost};

#[test]
fn c21_a_damaged_record_or_long_value_is_set_aside_as_dead_and_the_rest_flows() {
    for (kind, payload) in [(b'p', "short".to_owned()), (b'b', "long".repeat(1_000))] {
        let (_folder, db) = damaged(kind, &payload, flip);
        let queue = db.queue("q").unwrap();
        assert!(!block_on(queue.check()).unwrap().is_clean());
        let claimed = claim(&queue);
        assert_eq!(claimed.len(), 2, "the good ones");
        assert!(claimed.iter().all(|task| task.payload.as_str() == "\"good\""));
        let dead = block_on(queue.list(Filter::dead())).unwrap().tasks;
        assert_eq!(dead.len(), 1);
        assert!(dead.iter().all(|task| matches!(task.state, TaskState::Dead { reason: DeadReason::Damaged, .. })));
        assert!(dead.iter().all(|task| &*task.name == "n"));
        assert_eq!(block_on(queue.stats()).unwrap().dead, 1);
        assert!(block_on(queue.check()).unwrap().is_clean(), "setting aside leaves index and counts in step");
    }
}

#[test]
fn repair_brings_lost_index_entries_back_and_takes_stray_ones_away() {
    for kind in [b'r', b'p', b'c'] {
        let (_folder, db) = damaged(kind, "x", lost);
        let queue = db.queue("q").unwrap();
        let report = block_on(queue.check()).unwrap();
        assert!(!report.is_clean(), "{}", char::from(kind));
        let repaired = block_on(queue.repair()).unwrap();
        assert_eq!((repaired.repaired, &repaired.problems), (report.problems.len() as u64, &report.problems));
        assert!(block_on(queue.check()).unwrap().is_clean(), "{}", char::from(kind));
        assert_eq!(claim(&queue).len(), if kind == b'p' { 2 } else { 3 });
    }
}

#[test]
fn repair_sets_damaged_records_aside() {
    let (_folder, db) = damaged(b'p', "x", flip);
    let queue = db.queue("q").unwrap();
    assert!(!block_on(queue.repair()).unwrap().is_clean());
    let after = block_on(queue.check()).unwrap();
    assert!(after.is_clean(), "{:?}", after.problems);
    assert_eq!((claim(&queue).len(), block_on(queue.stats()).unwrap().dead), (2, 1));
}
