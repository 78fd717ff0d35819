//! A disk that fails at each step in turn: an answer is never a lie, and every commit is whole or absent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aedb_queue::{ClaimRequest, Completion, Db, Effects, ErrorKind, LeaseLength, NewTask, Result};
use futures::executor::block_on;
use redb::StorageBackend;

/// Bytes that outlive the database, and how many more writes and syncs succeed.
#[derive(Debug, Clone, Default)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    left: Arc<AtomicU64>,
}

impl Disk {
    fn spend(&self) -> io::Result<()> {
        let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        spent.map(|_| ()).map_err(|_| io::Error::other("the disk is gone"))
    }

    fn allow(&self, steps: u64) {
        self.left.store(steps, Ordering::SeqCst);
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        let bytes = self.bytes.lock().unwrap();
        out.copy_from_slice(bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend()?;
        self.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.spend()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend()?;
        let at = usize::try_from(offset).unwrap();
        let mut bytes = self.bytes.lock().unwrap();
        bytes.get_mut(at..at + data.len()).ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }
}

fn open(disk: &Disk) -> Db {
    disk.allow(u64::MAX);
    Db::builder().inline().backend(disk.clone()).unwrap()
}

fn count(db: &Db, key: &str) -> usize {
    usize::from(block_on(db.default_scope().kv().get(key)).unwrap().is_some())
}

/// Runs one verb on a disk that fails after so many steps, reopens, and answers what the call said and what is there.
fn broken_after(steps: u64, verb: impl Fn(&Db) -> Result<()>) -> (Result<()>, Db) {
    let disk = Disk::default();
    let db = open(&disk);
    let queue = db.queue("q").unwrap();
    block_on(queue.enqueue(NewTask::new("n", &1).unwrap())).unwrap();
    disk.allow(steps);
    let answer = verb(&db);
    if answer.is_err() {
        disk.allow(u64::MAX);
        let later = block_on(queue.enqueue(NewTask::new("n", &2).unwrap())).unwrap_err();
        assert_eq!(later.kind(), ErrorKind::Unavailable, "nothing is acknowledged after a failed write");
        disk.allow(0); // nor written, not even on closing
    }
    drop((db, queue));
    (answer, open(&disk))
}

fn told(answer: &Result<()>, applied: bool, steps: u64) {
    match answer {
        Ok(()) => assert!(applied, "acknowledged and gone after {steps} steps"),
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            assert!(!applied, "refused and there after {steps} steps")
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::UnknownOutcome),
    }
}

#[test]
fn c02_c04_an_enqueue_and_a_completion_are_whole_or_absent_wherever_the_disk_fails() {
    let enqueue = |db: &Db| -> Result<()> {
        let effects = Effects::new().put("order", "placed").enqueue("other", NewTask::new("n", &3).unwrap());
        block_on(db.queue("q")?.enqueue_with(NewTask::new("n", &2)?, effects)).map(|_| ())
    };
    let (mut refused, mut unknown) = (0, 0);
    for steps in 0.. {
        let (answer, db) = broken_after(steps, enqueue);
        let queue = db.queue("q").unwrap();
        let there = block_on(queue.stats()).unwrap().ready == 2;
        assert_eq!(there, count(&db, "order") == 1, "after {steps} steps");
        assert_eq!(there, block_on(db.queue("other").unwrap().stats()).unwrap().ready == 1, "after {steps} steps");
        assert!(block_on(queue.check()).unwrap().is_clean());
        told(&answer, there, steps);
        match answer {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::UnknownOutcome => unknown += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(unknown + refused > 2, "the faults did not fire: {unknown} and {refused}");

    for steps in 0.. {
        let disk = Disk::default();
        let db = open(&disk);
        let queue = db.queue("q").unwrap();
        block_on(queue.enqueue(NewTask::new("n", &1).unwrap())).unwrap();
        let claimed = block_on(queue.claim(ClaimRequest::new("w", LeaseLength::secs(60)))).unwrap().remove(0);
        disk.allow(steps);
        let done = Completion::new()
            .effects(Effects::new().put("order", "sent"))
            .follow_up("other", NewTask::new("n", &3).unwrap());
        let answer = block_on(queue.complete(&claimed, done)).map(|answer| assert!(answer.is_applied()));
        disk.allow(0);
        drop((db, queue));
        let db = open(&disk);
        let queue = db.queue("q").unwrap();
        let stats = block_on(queue.stats()).unwrap();
        assert_eq!(stats.done + stats.in_flight, 1, "after {steps} steps");
        assert_eq!(stats.done == 1, count(&db, "order") == 1, "after {steps} steps");
        assert_eq!(stats.done, block_on(db.queue("other").unwrap().stats()).unwrap().ready);
        assert!(block_on(queue.check()).unwrap().is_clean());
        told(&answer, stats.done == 1, steps);
        if answer.is_ok() {
            break;
        }
    }
}

#[test]
fn a_newer_format_and_a_file_of_another_program_are_refused_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.redb");
    let table = redb::TableDefinition::<&str, u64>::new("theirs");
    let other = redb::Database::create(&path).unwrap();
    let txn = other.begin_write().unwrap();
    txn.open_table(table).unwrap().insert("k", 1).unwrap();
    txn.commit().unwrap();
    drop(other);
    let error = Db::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("another program"), "{error}");

    let path = folder.path().join("newer.db");
    drop(Db::open(&path).unwrap());
    let newer = redb::Database::create(&path).unwrap();
    let txn = newer.begin_write().unwrap();
    txn.open_table(redb::TableDefinition::<&str, u64>::new("aedb-queue-meta")).unwrap().insert("format", 99).unwrap();
    txn.commit().unwrap();
    drop(newer);
    let error = Db::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("format 99"), "{error}");
}

#[test]
fn who_wants_the_file_alone_is_told_when_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let shared = Db::open(&path).unwrap();
    let error = Db::builder().exclusive().open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    drop(shared);
    let alone = Db::builder().exclusive().open(&path).unwrap();
    assert_eq!(Db::open(&path).unwrap_err().kind(), ErrorKind::Unavailable);
    block_on(alone.queue("q").unwrap().enqueue(NewTask::new("n", &1).unwrap())).unwrap();
}

#[test]
fn a_file_that_is_compacted_gets_smaller_and_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let db = Db::open(&path).unwrap();
    let queue = db.queue("q").unwrap();
    let keep = block_on(queue.enqueue(NewTask::new("keep", &1).unwrap())).unwrap().id;
    let large = vec![NewTask::new("n", &"x".repeat(2_000)).unwrap(); 5_000];
    let sent = block_on(queue.enqueue_batch(large)).unwrap();
    let ids = sent.iter().map(|sent| sent.id).collect();
    let place = db.default_scope().place().clone();
    let deleted = block_on(db.store().delete(&place, "q", ids)).unwrap();
    assert!(deleted.into_iter().all(|deleted| deleted));
    let before = std::fs::metadata(&path).unwrap().len();
    let mut seen = Vec::new();
    assert!(db.compact(|progress| seen.push(progress)).unwrap());
    assert!(std::fs::metadata(&path).unwrap().len() < before / 2);
    assert!(seen.len() >= 2 && seen.last().is_some_and(|last| last.done == last.total));
    assert!(block_on(queue.get(keep)).unwrap().is_some());
    assert!(block_on(queue.check()).unwrap().is_clean());
}
