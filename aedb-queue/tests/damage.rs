//! Damaged bytes: never delivered, never in the way, found by `check`, put right by `repair`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use aedb_queue::{ClaimRequest, ClaimedTask, Db, DeadReason, Filter, LeaseLength, NewTask, Queue, TaskId, TaskState};
use futures::executor::block_on;
use redb::{ReadableTable, TableDefinition};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("aedb-queue");

type Entry = (Vec<u8>, Vec<u8>);
type Table<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;

/// Changes the entries of one kind in the queue `q`, behind the back of the database.
fn plant(path: &Path, kind: u8, change: impl Fn(&mut Table<'_>, &Entry)) {
    let file = redb::Database::create(path).unwrap();
    let txn = file.begin_write().unwrap();
    {
        let mut table = txn.open_table(TABLE).unwrap();
        let prefix = [b"\x07default\x07default\x00aedb:queue:\x00\x01q".as_slice(), &[kind]].concat();
        let entries: Vec<Entry> = table
            .iter()
            .unwrap()
            .map(|entry| entry.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).unwrap())
            .filter(|(key, _)| key.starts_with(&prefix))
            .collect();
        assert!(!entries.is_empty(), "nothing of kind {} to damage", char::from(kind));
        entries.iter().for_each(|entry| change(&mut table, entry));
    }
    txn.commit().unwrap();
}

fn flip(table: &mut Table<'_>, (key, value): &Entry) {
    let mut value = value.clone();
    let middle = value.len() / 2;
    if let Some(byte) = value.get_mut(middle) {
        *byte ^= 0x10;
    }
    table.insert(key.as_slice(), value.as_slice()).unwrap();
}

fn lost(table: &mut Table<'_>, (key, _): &Entry) {
    table.remove(key.as_slice()).unwrap();
}

fn claim(queue: &Queue) -> Vec<ClaimedTask> {
    block_on(queue.claim(ClaimRequest::new("w", LeaseLength::secs(30)).max(100))).unwrap()
}

/// Three tasks in a file, something planted, and the file opened again.
fn damaged(kind: u8, payload: &str, change: impl Fn(&mut Table<'_>, &Entry)) -> (tempfile::TempDir, Db) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    {
        let db = Db::open(&path).unwrap();
        let tasks = (0..3).map(|_| NewTask::new("n", payload).unwrap().idempotency_key("same")).take(1);
        block_on(db.queue("q").unwrap().enqueue_batch(tasks.collect())).unwrap();
    }
    plant(&path, kind, change);
    let db = Db::open(&path).unwrap();
    block_on(db.queue("q").unwrap().enqueue_batch(vec![NewTask::new("n", "good").unwrap(); 2])).unwrap();
    (folder, db)
}

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

/// Enqueues what `damaged` enqueued first, once more; answers the id if that was the task that is there.
fn same_key(db: &Db) -> Option<TaskId> {
    let again = NewTask::new("n", "x").unwrap().idempotency_key("same");
    let outcome = block_on(db.queue("q").unwrap().enqueue(again)).unwrap();
    assert!(!outcome.differs, "it is the same task");
    outcome.deduplicated.then_some(outcome.id)
}

#[test]
fn a_live_task_that_has_lost_its_idempotency_key_is_found_and_gets_it_back() {
    for change in [lost, flip] {
        let (_folder, db) = damaged(b'k', "x", change);
        let queue = db.queue("q").unwrap();
        let id = block_on(queue.list(Filter::all().limit(1))).unwrap().tasks.remove(0).id;
        let problems = block_on(queue.check()).unwrap().problems;
        assert!(
            problems.iter().any(|said| said.contains(&format!("task {id} has lost its idempotency key"))),
            "{problems:?}"
        );
        assert_eq!(block_on(queue.repair()).unwrap().problems, problems);
        assert!(block_on(queue.check()).unwrap().is_clean());
        assert_eq!(same_key(&db), Some(id));
    }
}

#[test]
fn a_key_that_another_live_task_has_taken_stays_with_it_and_of_two_that_lost_it_the_older_gets_it() {
    let (folder, db) = damaged(b'k', "x", lost);
    assert_eq!(same_key(&db), None, "the key was lost, so a second task could take it");
    let queue = db.queue("q").unwrap();
    assert!(block_on(queue.repair()).unwrap().is_clean(), "the key is held, and two tasks are what there is");
    let second = same_key(&db).unwrap();
    drop((queue, db));
    plant(&folder.path().join("app.db"), b'k', lost);
    let db = Db::open(folder.path().join("app.db")).unwrap();
    let queue = db.queue("q").unwrap();
    assert_eq!(block_on(queue.repair()).unwrap().problems.len(), 2);
    assert!(block_on(queue.check()).unwrap().is_clean());
    assert!(same_key(&db).unwrap() < second);
}

#[test]
fn a_key_whose_task_is_gone_keeps_nobody_from_it() {
    for repair in [true, false] {
        let (_folder, db) = damaged(b'p', "x", lost);
        let queue = db.queue("q").unwrap();
        let problems = block_on(queue.check()).unwrap().problems;
        assert!(problems.iter().any(|said| said.contains("leads to no task")), "{problems:?}");
        if repair {
            assert!(!block_on(queue.repair()).unwrap().is_clean());
            assert!(block_on(queue.check()).unwrap().is_clean());
        }
        assert_eq!(same_key(&db), None);
        assert!(same_key(&db).is_some());
    }
}

#[test]
fn the_key_of_a_damaged_record_is_held_for_as_long_as_the_record_is_kept() {
    let (_folder, db) = damaged(b'p', "x", flip);
    let queue = db.queue("q").unwrap();
    assert_eq!(claim(&queue).len(), 2);
    let dead = block_on(queue.list(Filter::dead())).unwrap().tasks.remove(0).id;
    assert_eq!(same_key(&db), Some(dead));
    assert!(block_on(queue.delete(dead)).unwrap());
    assert_eq!(same_key(&db), None);
    assert!(block_on(queue.check()).unwrap().is_clean());
}
