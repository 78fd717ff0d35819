//! Retry: what is charged and what is not, backoff, death, and life again.

use std::time::Duration;

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::{
    Backoff, DeadReason, Due, Filter, Json, LeaseLength, RetentionLimits, Retry, StateKind, TaskState, Timestamp,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c19_a_lost_lease_spends_no_attempt_of_a_task_that_has_only_one,
    c19_a_lost_lease_adds_no_backoff,
    c20_a_task_that_kills_its_worker_is_parked_and_the_others_flow,
    c20_unless_told_otherwise_a_task_that_loses_ten_workers_is_parked_without_a_failure,
    c21_budgets_of_any_size_are_kept_and_never_block_the_rest,
    c24_the_last_lease_that_runs_out_is_settled_by_one_sweep_without_other_traffic,
    c45_c46_no_failure_of_any_backoff_makes_a_task_due_in_the_past_or_beyond_its_cap,
    c47_an_explicit_zero_is_at_once_and_the_default_is_not,
    c47_an_instant_chosen_by_the_worker_replaces_the_backoff_and_is_charged,
    a_snooze_and_a_release_charge_nothing_but_are_counted,
    progress_is_there_for_the_next_attempt_after_a_failure_and_after_a_lost_lease,
    a_heartbeat_never_shortens_a_lease,
    a_dead_task_that_is_retried_has_a_fresh_budget_and_its_history,
    a_fatal_failure_kills_at_once_and_only_ten_failures_are_remembered,
    all_dead_tasks_of_a_filter_are_retried_over_many_pages,
];

fn dead_because(shop: &Shop, id: aedb_queue::TaskId) -> Option<DeadReason> {
    if let TaskState::Dead { reason, .. } = shop.state(id) { Some(reason) } else { None }
}

fn c19_a_lost_lease_spends_no_attempt_of_a_task_that_has_only_one() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).max_attempts(1));
    shop.claim_one();
    shop.outlive_leases();
    let again = shop.claim_one();
    assert_eq!((again.id, again.counters.attempts, again.counters.lost_leases), (id, 1, 1));
    assert!(shop.complete(&again).is_applied());
}

fn c19_a_lost_lease_adds_no_backoff() {
    let shop = Shop::new();
    shop.enqueue(task(1).backoff(Backoff::fixed(secs(3600))));
    shop.claim_one();
    shop.outlive_leases();
    assert_eq!(shop.claim(1).len(), 1);
}

fn c20_a_task_that_kills_its_worker_is_parked_and_the_others_flow() {
    let shop = Shop::new();
    let poison = shop.enqueue(task(1).max_lost_leases(3).priority(9));
    for _ in 0..3 {
        assert_eq!(shop.claim_one().id, poison);
        shop.outlive_leases();
    }
    let next = shop.enqueue(task(2));
    assert_eq!(shop.claim_one().id, next);
    assert_eq!(dead_because(&shop, poison), Some(DeadReason::LeasesLost));
    assert_eq!((shop.counters(poison).failures, shop.counters(poison).lost_leases), (0, 3));
}

fn c20_unless_told_otherwise_a_task_that_loses_ten_workers_is_parked_without_a_failure() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).max_attempts(1));
    for lost in 0..10 {
        assert_eq!(shop.claim_one().counters.lost_leases, lost);
        shop.outlive_leases();
    }
    assert!(shop.claim(1).is_empty());
    assert_eq!((dead_because(&shop, id), shop.counters(id).failures), (Some(DeadReason::LeasesLost), 0));
}

fn c21_budgets_of_any_size_are_kept_and_never_block_the_rest() {
    let shop = Shop::new();
    let huge = shop.enqueue(task(1).max_attempts(u32::MAX).max_lost_leases(u32::MAX).backoff(Backoff::none()));
    let small = shop.enqueue(task(2).max_attempts(1));
    let claimed = shop.claim(2);
    assert_eq!(claimed.iter().map(|claim| claim.id).collect::<Vec<_>>(), [huge, small]);
    for claim in &claimed {
        assert!(shop.fail(claim).is_applied());
    }
    assert_eq!(dead_because(&shop, small), Some(DeadReason::AttemptsSpent));
    assert_eq!(shop.claim(2).len(), 1);
}

fn c24_the_last_lease_that_runs_out_is_settled_by_one_sweep_without_other_traffic() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).max_lost_leases(1));
    shop.claim_one();
    shop.outlive_leases();
    let report = block_on(shop.queue.sweep(RetentionLimits::default())).unwrap();
    assert_eq!((report.reclaimed, dead_because(&shop, id)), (1, Some(DeadReason::LeasesLost)));
}

fn c45_c46_no_failure_of_any_backoff_makes_a_task_due_in_the_past_or_beyond_its_cap() {
    for base in [0, 1, 1_000_000, u64::MAX] {
        for cap in [0, 1, 3_600_000_000, u64::MAX] {
            let shop = Shop::new();
            let backoff = Backoff::exponential(Duration::from_micros(base), Duration::from_micros(cap));
            let id = shop.enqueue(task(1).backoff(backoff).max_attempts(u32::MAX));
            for _ in 0..70 {
                let Some(claim) = shop.claim(1).pop() else { break };
                let now = shop.now();
                assert!(shop.fail(&claim).is_applied());
                match shop.state(id) {
                    TaskState::Ready { .. } => {}
                    TaskState::Scheduled { due } => {
                        assert!(due > now && due <= now.saturating_add(Duration::from_micros(cap)));
                        // One that is due in the far future is left there.
                        if due < Timestamp::from_micros(u64::MAX / 2) {
                            shop.clock.set(due);
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

fn c47_an_explicit_zero_is_at_once_and_the_default_is_not() {
    let shop = Shop::new();
    let (zero, usual) = (shop.enqueue(task(1).backoff(Backoff::none())), shop.enqueue(task(2)));
    for claim in shop.claim(2) {
        assert!(shop.fail(&claim).is_applied());
    }
    assert_eq!(shop.state(zero).kind(), StateKind::Ready);
    assert_eq!(shop.state(usual).kind(), StateKind::Scheduled);
}

fn c47_an_instant_chosen_by_the_worker_replaces_the_backoff_and_is_charged() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    let claim = shop.claim_one();
    let at = shop.now().saturating_add(secs(777));
    assert!(block_on(shop.queue.fail_with(&claim, "later", Retry::At(at))).unwrap().is_applied());
    assert_eq!((shop.state(id), shop.counters(id).failures), (TaskState::Scheduled { due: at }, 1));
}

fn a_snooze_and_a_release_charge_nothing_but_are_counted() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).max_attempts(1));
    for _ in 0..5 {
        let claim = shop.claim_one();
        assert!(block_on(shop.queue.snooze(&claim, Due::After(secs(1)))).unwrap().is_applied());
        shop.pass(secs(1));
        let claim = shop.claim_one();
        assert!(block_on(shop.queue.release(&claim)).unwrap().is_applied());
    }
    let counters = shop.counters(id);
    assert_eq!((counters.attempts, counters.failures, counters.lost_leases), (0, 0, 0));
    assert_eq!((counters.snoozes, counters.deliveries), (5, 10));
}

fn progress_is_there_for_the_next_attempt_after_a_failure_and_after_a_lost_lease() {
    let shop = Shop::new();
    shop.enqueue(task(1).backoff(Backoff::none()));
    for n in 0..4 {
        let claim = shop.claim_one();
        let seen = claim.progress.as_ref().map(|progress| progress.to::<u32>().unwrap());
        assert_eq!(seen, (n > 0).then(|| n - 1));
        let beat = block_on(shop.queue.heartbeat(&claim, LeaseLength::secs(30), Some(Json::of(&n).unwrap()))).unwrap();
        assert!(matches!(beat, aedb_queue::HeartbeatOutcome::Extended(_)));
        if n % 2 == 0 {
            assert!(shop.fail(&claim).is_applied());
        } else {
            shop.outlive_leases();
        }
    }
}

fn a_heartbeat_never_shortens_a_lease() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    let claim = shop.claim_one();
    let beat = block_on(shop.queue.heartbeat(&claim, LeaseLength::secs(1), None)).unwrap();
    assert_eq!(beat, aedb_queue::HeartbeatOutcome::Extended(claim.deadline));
}

fn a_dead_task_that_is_retried_has_a_fresh_budget_and_its_history() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).max_attempts(2).backoff(Backoff::none()));
    for _ in 0..2 {
        let claim = shop.claim_one();
        assert!(shop.fail(&claim).is_applied());
    }
    assert_eq!(dead_because(&shop, id), Some(DeadReason::AttemptsSpent));
    assert!(block_on(shop.queue.retry(id)).unwrap());
    let claim = shop.claim_one();
    assert_eq!((claim.id, claim.counters.failures), (id, 0));
    assert_eq!(shop.record(id).failures.len(), 2);
    assert!(shop.complete(&claim).is_applied());
    assert!(!block_on(shop.queue.retry(id)).unwrap(), "what is done is not done again");
}

fn a_fatal_failure_kills_at_once_and_only_ten_failures_are_remembered() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).backoff(Backoff::none()).max_attempts(100));
    for n in 0..15 {
        let claim = shop.claim_one();
        assert!(block_on(shop.queue.fail(&claim, format!("no. {n}"))).unwrap().is_applied());
    }
    let claim = shop.claim_one();
    assert!(block_on(shop.queue.fail_with(&claim, "the last", Retry::Fatal)).unwrap().is_applied());
    let failures = shop.record(id).failures;
    assert_eq!(dead_because(&shop, id), Some(DeadReason::Fatal));
    assert_eq!((failures.len(), &*failures[0].error, &*failures[9].error), (10, "no. 6", "the last"));
}

fn all_dead_tasks_of_a_filter_are_retried_over_many_pages() {
    let shop = Shop::new();
    for n in 0..25 {
        shop.enqueue(task(n).max_attempts(1));
    }
    for claim in shop.claim(25) {
        assert!(shop.fail(&claim).is_applied());
    }
    assert_eq!(block_on(shop.queue.retry_all(Filter::dead().limit(4))).unwrap(), 25);
    assert_eq!(shop.claim(100).len(), 25);
    assert!(block_on(shop.queue.retry_all(Filter::all())).is_err());
}
