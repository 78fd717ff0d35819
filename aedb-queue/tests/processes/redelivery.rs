//! C23: how long it takes until the task of a worker that was killed is with another one.

use std::path::Path;
use std::time::Duration;

use aedb_queue::{ClaimRequest, Completion, Db, LeaseLength, NewTask};
use futures::FutureExt as _;
use futures::executor::block_on;

use crate::process::Process;

const LEASE: Duration = Duration::from_secs(1);
/// How often a claim that waits looks into a file that other processes share.
const POLL: Duration = Duration::from_millis(25);
const ALLOWED: Duration = Duration::from_secs(1);

/// Kills one worker after the other in the middle of its attempt, while another one waits, and measures from each kill to
/// the claim.
fn redeliveries(file: &Path, rounds: usize) -> Vec<Duration> {
    let queue = Db::open(file).unwrap().queue("q").unwrap();
    let mut took = Vec::new();
    for round in 0..rounds {
        let id = block_on(queue.enqueue(NewTask::new("n", &round).unwrap())).unwrap().id;
        let mut worker = Process::start("attempt", file);
        worker.read_until(&format!("claimed {id}"));
        (0..round % 4).for_each(|_| drop(worker.read_until("beat")));
        let request = ClaimRequest::new("next", LeaseLength::secs(30)).wait(Duration::from_secs(30));
        let mut next = Box::pin(queue.claim(request));
        assert!(next.as_mut().now_or_never().is_none(), "it is with the worker that will be killed");
        let killed = queue.now();
        worker.kill();
        let claimed = block_on(next).unwrap().remove(0);
        took.push(queue.now().saturating_since(killed));
        assert_eq!((claimed.id, claimed.counters.lost_leases, claimed.counters.failures), (id, 1, 0));
        assert!(block_on(queue.complete(&claimed, Completion::new())).unwrap().is_applied());
    }
    assert!(block_on(queue.check()).unwrap().is_clean());
    took
}

#[test]
fn c23_the_task_of_a_killed_worker_is_with_the_next_one_within_its_lease_a_poll_and_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..10).map(|n| folder.path().join(format!("{n}.db"))).collect();
    let mut took: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(move || redeliveries(file, 10))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    took.sort();
    let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
    let much = format!("{} kills, lease of 1 s: p50 {median:.3?}, p100 {longest:.3?}", took.len());
    crate::summary::tell("a killed worker's task comes back", &much);
    assert!(longest <= LEASE + POLL + ALLOWED, "{longest:?}");
}
