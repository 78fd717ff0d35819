//! A file with something planted in it, behind the back of the database.

use std::path::Path;

use aedb_queue::{ClaimRequest, ClaimedTask, Db, LeaseLength, NewTask, Queue};
use futures::executor::block_on;
use redb::{ReadableDatabase, ReadableTable, TableDefinition};

pub(crate) const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("aedb-queue");

pub(crate) type Entry = (Vec<u8>, Vec<u8>);
pub(crate) type Table<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;

/// What the keys of all leases begin with.
pub(crate) const LEASES: &[u8] = b"\x07default\x07default\x00aedb:lease:";

/// What all keys of one kind in the queue `q` begin with.
fn prefix(kind: u8) -> Vec<u8> {
    [b"\x07default\x07default\x00aedb:queue:\x00\x01q".as_slice(), &[kind]].concat()
}

/// How many entries of one kind there are.
pub(crate) fn count(path: &Path, kind: u8) -> usize {
    let (mut count, prefix) = (0, prefix(kind));
    let file = redb::Database::create(path).unwrap();
    for entry in file.begin_read().unwrap().open_table(TABLE).unwrap().iter().unwrap() {
        count += usize::from(entry.unwrap().0.value().starts_with(&prefix));
    }
    count
}

/// Changes the entries of one kind, behind the back of the database.
pub(crate) fn plant(path: &Path, kind: u8, change: impl Fn(&mut Table<'_>, &Entry)) {
    plant_below(path, &prefix(kind), change);
}

/// Changes the entries whose keys begin like this.
pub(crate) fn plant_below(path: &Path, prefix: &[u8], change: impl Fn(&mut Table<'_>, &Entry)) {
    let file = redb::Database::create(path).unwrap();
    let txn = file.begin_write().unwrap();
    {
        let mut table = txn.open_table(TABLE).unwrap();
        let entries: Vec<Entry> = table
            .iter()
            .unwrap()
            .map(|entry| entry.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).unwrap())
            .filter(|(key, _)| key.starts_with(prefix))
            .collect();
        assert!(!entries.is_empty(), "nothing to damage at {}", prefix.escape_ascii());
        entries.iter().for_each(|entry| change(&mut table, entry));
    }
    txn.commit().unwrap();
}

pub(crate) fn flip(table: &mut Table<'_>, (key, value): &Entry) {
    let mut value = value.clone();
    let middle = value.len() / 2;
    if let Some(byte) = value.get_mut(middle) {
        *byte ^= 0x10;
    }
    table.insert(key.as_slice(), value.as_slice()).unwrap();
}

pub(crate) fn lost(table: &mut Table<'_>, (key, _): &Entry) {
    table.remove(key.as_slice()).unwrap();
}

pub(crate) fn claim(queue: &Queue) -> Vec<ClaimedTask> {
    block_on(queue.claim(ClaimRequest::new("w", LeaseLength::secs(30)).max(100))).unwrap()
}

/// Three tasks in a file, something planted, and the file opened again.
pub(crate) fn damaged(kind: u8, payload: &str, change: impl Fn(&mut Table<'_>, &Entry)) -> (tempfile::TempDir, Db) {
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
