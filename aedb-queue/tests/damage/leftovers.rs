//! What damage leaves behind: it goes with the record, or is found.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aedb_queue::{Completion, Db, Filter, Json, ManualClock, NewTask, Queue, QueueStats, RetentionLimits, SweepReport};
use futures::executor::block_on;

use crate::file::{claim, count, damaged, flip, lost, plant};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn sweep(queue: &Queue) -> SweepReport {
    block_on(queue.sweep(RetentionLimits::default())).unwrap()
}

fn problems(queue: &Queue) -> Vec<String> {
    block_on(queue.check()).unwrap().problems
}

#[test]
fn the_long_values_of_a_damaged_record_are_kept_with_it_and_go_with_it() {
    for repairs in [true, false] {
        let (folder, db) = damaged(b'p', &"long".repeat(1_000), flip);
        let queue = db.queue("q").unwrap();
        if repairs {
            assert!(!block_on(queue.repair()).unwrap().is_clean());
        }
        assert_eq!(claim(&queue).len(), 2, "the good ones");
        assert!(problems(&queue).is_empty());
        let dead = block_on(queue.list(Filter::dead())).unwrap().tasks.remove(0).id;
        drop((queue, db));
        let path = folder.path().join("app.db");
        assert_eq!(count(&path, b'b'), 2, "the record's bytes and its payload, for whoever wants to look");
        assert!(block_on(Db::open(&path).unwrap().queue("q").unwrap().delete(dead)).unwrap());
        assert_eq!(count(&path, b'b'), 0);
    }
}

#[test]
fn long_values_whose_record_is_gone_are_found_and_removed() {
    let (folder, db) = damaged(b'p', &"long".repeat(1_000), lost);
    let queue = db.queue("q").unwrap();
    let said = problems(&queue);
    assert!(said.iter().any(|said| said.contains("a long value belongs to no record")), "{said:?}");
    assert_eq!(block_on(queue.repair()).unwrap().problems, said);
    assert!(problems(&queue).is_empty());
    drop((queue, db));
    assert_eq!(count(&folder.path().join("app.db"), b'b'), 0);
}

/// Two tasks with keys and long values that were completed, and something planted.
fn completed(kind: u8, change: impl Fn(&mut crate::file::Table<'_>, &crate::file::Entry)) -> Completed {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
    let path = folder.path().join("app.db");
    {
        let queue = open(&path, &clock);
        let long = Json::of(&"long".repeat(1_000)).unwrap();
        for key in ["a", "b"] {
            let new = NewTask::with_json("n", long.clone()).keep_done(DAY).idempotency_key_for(key, 2 * DAY);
            block_on(queue.enqueue(new)).unwrap();
        }
        for task in claim(&queue) {
            let completion = Completion::new().result(long.clone());
            assert!(block_on(queue.complete(&task, completion)).unwrap().is_applied());
        }
    }
    plant(&path, kind, change);
    (folder, path, clock)
}

type Completed = (tempfile::TempDir, PathBuf, ManualClock);

fn open(path: &Path, clock: &ManualClock) -> Queue {
    Db::builder().clock(clock.clone()).inline().open(path).unwrap().queue("q").unwrap()
}

#[test]
fn a_finished_record_that_is_damaged_is_pruned_with_its_values_and_its_bytes() {
    let (_folder, path, clock) = completed(b'p', flip);
    let queue = open(&path, &clock);
    clock.advance(DAY);
    assert_eq!(sweep(&queue).pruned, 2);
    assert_eq!(block_on(queue.stats()).unwrap(), QueueStats::default());
    assert_eq!(problems(&queue), Vec::<String>::new());
    drop(queue);
    assert_eq!(count(&path, b'b'), 0);
}

#[test]
fn a_key_whose_end_was_lost_gets_it_back_and_ends_then() {
    let (_folder, path, clock) = completed(b'x', lost);
    let queue = open(&path, &clock);
    let said = problems(&queue);
    assert!(said.len() == 2 && said.iter().all(|said| said.contains("would never end")), "{said:?}");
    assert_eq!(block_on(queue.repair()).unwrap().problems, said);
    assert!(problems(&queue).is_empty());
    clock.advance(2 * DAY);
    assert_eq!(sweep(&queue).keys_expired, 2);
    drop(queue);
    assert_eq!(count(&path, b'k'), 0);
}
