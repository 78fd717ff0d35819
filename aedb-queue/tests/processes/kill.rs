//! Killed processes: what was acknowledged is there, what was not is whole or absent, nothing is doubled.

use std::collections::BTreeMap;
use std::time::Duration;

use aedb_queue::{ClaimRequest, Db, Filter, KeyRange, LeaseLength, NewTask, StateKind, TaskId};
use futures::executor::block_on;

use crate::process::Process;

pub(crate) fn ids(said: &[String], word: &str) -> Vec<TaskId> {
    said.iter().filter_map(|line| line.strip_prefix(word)?.split_whitespace().next()?.parse().ok()).collect()
}

pub(crate) fn all(db: &Db, queue: &str, state: Option<StateKind>) -> Vec<TaskId> {
    let queue = db.queue(queue).unwrap();
    let (mut found, mut filter) = (Vec::new(), state.map_or_else(Filter::all, Filter::state));
    loop {
        let page = block_on(queue.list(filter.clone())).unwrap();
        found.extend(page.tasks.iter().map(|task| task.id));
        match page.next {
            Some(next) => filter = filter.after(Some(next)),
            None => return found,
        }
    }
}

fn rounds(usual: usize) -> usize {
    std::env::var("AEDB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(usual)
}

#[test]
fn c04_two_hundred_kills_of_a_producer_and_of_a_worker_lose_and_double_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let (mut enqueued, mut completed, mut tokens) = (Vec::new(), Vec::new(), BTreeMap::<TaskId, Vec<u64>>::new());
    for round in 0..rounds(100) {
        let (producer, worker) = (Process::start("produce", &file), Process::start("work", &file));
        // The worker first: as long as the producer lives, there is something for it to say.
        let worked = worker.kill_after(3 + round % 17);
        let produced = producer.kill_after(5 + round % 23);
        enqueued.extend(ids(&produced, "enqueued "));
        completed.extend(ids(&worked, "completed "));
        for line in worked.iter().filter_map(|line| line.strip_prefix("claimed ")) {
            let (id, token) = line.split_once(' ').unwrap();
            tokens.entry(id.parse().unwrap()).or_default().push(token.parse().unwrap());
        }
    }
    let db = Db::open(&file).unwrap();
    let (known, done) = (all(&db, "q", None), all(&db, "q", Some(StateKind::Done)));
    assert!(enqueued.iter().all(|id| known.binary_search(id).is_ok()), "an acknowledged task is gone");
    assert!(completed.iter().all(|id| done.contains(id)), "an acknowledged completion is gone");
    assert!(tokens.values().all(|seen| seen.windows(2).all(|pair| pair[0] < pair[1])), "a token came twice");
    // A completion, its key and its follow-up are one thing.
    let kv = db.default_scope().kv();
    let mut ran = 0;
    for id in &done {
        ran += usize::from(block_on(kv.get(format!("ran:{id}"))).unwrap().is_some());
    }
    assert_eq!((ran, all(&db, "after", None).len()), (done.len(), done.len()));
    // A task and its order are one thing.
    let (mut orders, mut after) = (0, None);
    loop {
        let mut range = KeyRange::prefix("order:");
        if let Some(key) = after {
            range = range.after(key);
        }
        let page = block_on(kv.scan(range)).unwrap();
        orders += page.len();
        after = page.last().map(|(key, _)| key.clone());
        if after.is_none() {
            break;
        }
    }
    assert_eq!(orders, known.len());
    for name in ["q", "after"] {
        let report = block_on(db.queue(name).unwrap().check()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
    let (enqueued, completed) = (enqueued.len(), completed.len());
    crate::summary::tell(
        "two processes on one file, killed in turn",
        &format!("{enqueued} enqueues and {completed} completions acknowledged, none lost"),
    );
}

#[test]
fn two_processes_on_one_file_never_claim_the_same_task_under_one_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let db = Db::open(&file).unwrap();
    let queue = db.queue("q").unwrap();
    let sent = block_on(queue.enqueue_batch((0..2_000).map(|n| NewTask::new("n", &n).unwrap()).collect())).unwrap();
    let workers = [Process::start("work", &file), Process::start("work", &file)];
    while block_on(queue.stats()).unwrap().done < sent.len() as u64 {
        std::thread::yield_now();
    }
    let said = workers.map(|worker| worker.kill_after(1));
    let [a, b] = said.map(|said| ids(&said, "completed "));
    assert!(!a.is_empty() && !b.is_empty(), "one process starved: {} and {}", a.len(), b.len());
    assert!(a.iter().all(|id| !b.contains(id)));
    assert!(block_on(queue.check()).unwrap().is_clean());
}

#[test]
fn c08_a_process_that_is_stopped_past_its_lease_can_complete_nothing_when_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let db = Db::open(&file).unwrap();
    let queue = db.queue("q").unwrap();
    let id = block_on(queue.enqueue(NewTask::new("n", &1).unwrap())).unwrap().id;
    let mut zombie = Process::start("hold", &file);
    zombie.read_until("holds");
    zombie.signal(rustix::process::Signal::STOP);
    // Its lease of a second runs out while it is stopped; this claim waits for that.
    let request = ClaimRequest::new("other", LeaseLength::secs(60)).wait(Duration::from_secs(30));
    let claimed = block_on(queue.claim(request)).unwrap();
    std::fs::write(file.with_extension("go"), "").unwrap();
    zombie.signal(rustix::process::Signal::CONT);
    let said = zombie.wait();
    assert!(said.iter().any(|line| line == "answer LeaseLost(TakenOver)"), "{said:?}");
    assert_eq!(block_on(db.default_scope().kv().get(format!("ran:{id}"))).unwrap(), None);
    assert_eq!(claimed[0].counters.lost_leases, 1);
    assert_eq!(claimed[0].counters.failures, 0);
}
