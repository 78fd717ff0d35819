//! Idempotency keys whose entries or tasks are lost.

use aedb_queue::{Db, Filter, NewTask, TaskId};
use futures::executor::block_on;

use crate::file::{claim, damaged, flip, lost, plant};

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
