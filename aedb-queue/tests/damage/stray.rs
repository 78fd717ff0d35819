//! Index entries that lead to a good record and are not its own. The record is right; only the entry goes.

use std::path::Path;

use aedb_queue::{Completion, Db, Filter, NewTask, Queue, RetentionLimits, StateKind, TaskState};
use futures::executor::block_on;

use crate::file::{Entry, Table, claim, plant};

/// For a record, an entry of each index under which a verb would soon look at it.
fn stray(table: &mut Table<'_>, (key, _): &Entry) {
    let (queue, id) = (&key[..key.len() - 9], &key[key.len() - 8..]);
    let (instant, best) = ([0, 0, 0, 0, 0, 0, 0, 1], [0; 8]);
    for (kind, at) in [(&b"s"[..], instant), (b"f", instant), (b"dd", instant), (b"dx", instant), (b"r\x01n", best)] {
        table.insert([queue, kind, &at, id].concat().as_slice(), [].as_slice()).unwrap();
    }
}

fn sweep(queue: &Queue) {
    let report = block_on(queue.sweep(RetentionLimits::default())).unwrap();
    assert_eq!(report.died, []);
}

/// What brings a task into a state.
type Prepare<'a> = &'a dyn Fn(&Queue);

/// One task that `prepare` brings into a state, with stray entries, in a file that was opened again.
fn beset(path: &Path, new: NewTask, prepare: impl Fn(&Queue)) -> Queue {
    {
        let queue = Db::open(path).unwrap().queue("q").unwrap();
        block_on(queue.enqueue(new)).unwrap();
        prepare(&queue);
    }
    plant(path, b'p', stray);
    let queue = Db::open(path).unwrap().queue("q").unwrap();
    assert!(block_on(queue.check()).unwrap().problems.len() >= 5);
    queue
}

#[test]
fn entries_that_are_not_a_good_records_own_neither_kill_nor_remove_nor_double_it() {
    let new = || NewTask::new("n", &1).unwrap();
    let complete = |queue: &Queue| {
        for task in claim(queue) {
            assert!(block_on(queue.complete(&task, Completion::new())).unwrap().is_applied());
        }
    };
    let cancel = |queue: &Queue| {
        let id = block_on(queue.list(Filter::all())).unwrap().tasks[0].id;
        assert!(block_on(queue.cancel(id)).unwrap());
    };
    let later = new().delay(std::time::Duration::from_secs(3600));
    let prepared: [(_, _, Prepare<'_>); 5] = [
        (StateKind::Ready, new(), &|_| {}),
        (StateKind::Scheduled, later, &|_| {}),
        (StateKind::InFlight, new(), &|queue| assert_eq!(claim(queue).len(), 1)),
        (StateKind::Done, new(), &complete),
        (StateKind::Cancelled, new(), &cancel),
    ];
    for (state, new, prepare) in prepared {
        for sweeps in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let queue = beset(&folder.path().join("app.db"), new.clone(), prepare);
            let before = block_on(queue.list(Filter::all())).unwrap().tasks.remove(0);
            if sweeps {
                sweep(&queue);
            }
            let claimed = claim(&queue);
            assert_eq!(claimed.len(), usize::from(state == StateKind::Ready), "{state}");
            assert!(claim(&queue).is_empty());
            let after = block_on(queue.get(before.id)).unwrap().unwrap();
            match claimed.first() {
                Some(task) => assert!(matches!(after.state, TaskState::InFlight { .. }) && after.token == task.token),
                None => assert_eq!(after, before),
            }
            sweep(&queue);
            assert!(block_on(queue.check()).unwrap().is_clean(), "{state}: {:?}", block_on(queue.check()));
        }
    }
}

#[test]
fn a_list_by_state_shows_a_record_once_and_only_under_its_own_state() {
    let folder = tempfile::tempdir().unwrap();
    let queue = beset(&folder.path().join("app.db"), NewTask::new("n", &1).unwrap(), |_| {});
    for state in StateKind::ALL {
        let listed = block_on(queue.list(Filter::state(state))).unwrap().tasks.len();
        assert_eq!(listed, usize::from(state == StateKind::Ready), "{state}");
    }
}
