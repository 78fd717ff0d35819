//! Deaths that no worker decided: each is told by one sweep, whoever brought it about. And deaths that one did: foreseen.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::{RetentionLimits, Retry, StateKind, SweepReport, TaskId};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    a_sweep_tells_the_tasks_that_it_made_dead_and_only_once,
    a_death_in_a_claim_is_told_by_the_next_sweep_and_by_no_other,
    a_sweep_tells_no_more_deaths_than_its_steps_and_says_that_there_are_more,
    deaths_that_a_worker_decided_are_not_told,
    a_claim_tells_beforehand_whether_a_failure_is_its_task_s_last,
];

fn sweep(shop: &Shop, steps: usize) -> SweepReport {
    block_on(shop.queue.sweep(RetentionLimits { steps, ..Default::default() })).unwrap()
}

/// Tasks whose next lost lease is the last one, all claimed and their leases run out.
fn doomed(shop: &Shop, tasks: u64) -> Vec<TaskId> {
    let ids = (0..tasks).map(|n| shop.enqueue(task(n).max_lost_leases(1))).collect();
    assert_eq!(shop.claim(tasks as usize).len(), tasks as usize);
    shop.outlive_leases();
    ids
}

fn a_sweep_tells_the_tasks_that_it_made_dead_and_only_once() {
    let shop = Shop::new();
    let lives = shop.enqueue(task(0).max_lost_leases(2));
    shop.claim_one();
    let died = doomed(&shop, 3);
    let report = sweep(&shop, 10_000);
    assert_eq!((report.died, report.reclaimed, report.more), (died, 4, false));
    assert_eq!(sweep(&shop, 10_000).died, []);
    assert_eq!(shop.state(lives).kind(), StateKind::Ready);
}

fn a_death_in_a_claim_is_told_by_the_next_sweep_and_by_no_other() {
    let shop = Shop::new();
    let died = doomed(&shop, 3);
    assert!(shop.claim(9).is_empty());
    assert_eq!(shop.state(died[0]).kind(), StateKind::Dead);
    // It may be retried or deleted in between; it has died all the same.
    assert!(block_on(shop.queue.retry(died[0])).unwrap() && block_on(shop.queue.delete(died[1])).unwrap());
    assert_eq!(sweep(&shop, 10_000).died, died);
    assert_eq!(sweep(&shop, 10_000).died, []);
}

fn a_sweep_tells_no_more_deaths_than_its_steps_and_says_that_there_are_more() {
    let shop = Shop::new();
    let died = doomed(&shop, 5);
    assert!(shop.claim(9).is_empty());
    let mut told = Vec::new();
    for expected in [2, 2, 1] {
        let report = sweep(&shop, 2);
        assert_eq!((report.died.len(), report.more), (expected, expected == 2));
        told.extend(report.died);
    }
    assert_eq!(told, died);
}

fn deaths_that_a_worker_decided_are_not_told() {
    let shop = Shop::new();
    for n in 0..3 {
        shop.enqueue(task(n).max_attempts(1));
    }
    let claims = shop.claim(3);
    assert!(block_on(shop.queue.fail_with(&claims[0], "no", Retry::Fatal)).unwrap().is_applied());
    assert!(shop.fail(&claims[1]).is_applied());
    assert!(block_on(shop.queue.discard(&claims[2], "no")).unwrap().is_applied());
    assert_eq!(sweep(&shop, 10_000).died, []);
}

fn a_claim_tells_beforehand_whether_a_failure_is_its_task_s_last() {
    let shop = Shop::new();
    shop.enqueue(task(1).max_attempts(2));
    for last in [false, true] {
        let claim = shop.claim_one();
        assert!(claim.would_die(&Retry::Fatal));
        assert_eq!((claim.would_die(&Retry::ByPolicy), claim.would_die(&Retry::At(shop.now()))), (last, last));
        assert!(shop.fail(&claim).is_applied());
        assert_eq!(shop.state(claim.id).kind() == StateKind::Dead, last);
        shop.pass(secs(3600));
    }
}
