//! A disk that is full: a clear error, nothing more is accepted, and nothing acknowledged is lost.

use aedb_queue::{Db, NewTask};
use futures::executor::block_on;

use crate::kill::{all, ids};
use crate::process::Process;

#[test]
fn c02_a_full_disk_is_said_clearly_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    // The limit is in blocks of 512 bytes; without the trap the process would be killed instead of told.
    let said = Process::start_after("trap '' XFSZ; ulimit -f 8192", "fill", &file).wait();
    let line =
        |word: &str| said.iter().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("no {word} in {said:?}"));
    assert!(line("refused").contains("reopen the database"), "{}", line("refused"));
    assert!(line("later").starts_with("later Unavailable"), "{}", line("later"));
    let db = Db::open(&file).unwrap();
    let (acknowledged, known) = (ids(&said, "enqueued "), all(&db, "q", None));
    assert!(acknowledged.len() > 5 && acknowledged.iter().all(|id| known.binary_search(id).is_ok()));
    let queue = db.queue("q").unwrap();
    assert!(block_on(queue.check()).unwrap().is_clean());
    block_on(queue.enqueue(NewTask::new("n", &1).unwrap())).unwrap();
}

#[test]
fn a_folder_that_is_not_there_and_a_file_of_another_program_are_said_clearly() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Db::open(folder.path().join("no/such/app.db")).unwrap_err();
    assert_eq!(missing.kind(), aedb_queue::ErrorKind::NotFound, "{missing}");
    let other = folder.path().join("notes.txt");
    std::fs::write(&other, "these are my notes\n".repeat(100)).unwrap();
    let refused = Db::open(&other).unwrap_err();
    assert_eq!(refused.kind(), aedb_queue::ErrorKind::Invalid, "{refused}");
    assert!(std::fs::read_to_string(&other).unwrap().starts_with("these are my notes"));
}
