//! Amend: what it changes, what that does to the order and to the budget, and what it leaves alone.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::{
    Amendment, Backoff, ClaimedTask, DeadReason, Due, ErrorKind, FencedCommit, NewTask, RetentionLimits, Retry,
    StateKind, TaskId, TaskState,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    a_task_whose_priority_changes_moves_and_keeps_its_place_among_equals,
    a_task_in_flight_keeps_its_lease_and_its_new_priority_counts_when_it_is_back,
    a_new_backoff_counts_from_the_next_failure,
    c21_attempts_below_the_failures_make_a_waiting_task_dead_at_once_and_a_sweep_tells,
    c21_a_claim_serves_the_others_past_tasks_whose_attempts_were_lowered_in_flight,
    c21_a_task_in_flight_whose_attempts_are_lowered_may_complete_and_dies_of_its_next_failure,
    more_attempts_spare_a_task_that_would_have_died,
    no_attempts_at_all_are_refused_by_value_and_nothing_changes,
    a_task_that_dies_of_an_amendment_holds_its_key_to_the_end_of_its_window,
];

fn amend(shop: &Shop, id: TaskId, amendment: Amendment) -> bool {
    block_on(shop.queue.amend(id, amendment)).unwrap()
}

fn attempts(max: u32) -> Amendment {
    Amendment::new().max_attempts(max)
}

fn is_spent(shop: &Shop, id: TaskId) -> bool {
    matches!(shop.state(id), TaskState::Dead { reason: DeadReason::AttemptsSpent, .. })
}

fn died(shop: &Shop) -> Vec<TaskId> {
    block_on(shop.queue.sweep(RetentionLimits::default())).unwrap().died
}

/// A task in flight that has failed so often.
fn failed(shop: &Shop, times: u32, task: NewTask) -> ClaimedTask {
    let id = shop.enqueue(task.backoff(Backoff::none()));
    for _ in 0..times {
        assert!(shop.fail(&shop.claim_one()).is_applied());
    }
    let claim = shop.claim_one();
    assert_eq!((claim.id, claim.counters.failures), (id, times));
    claim
}

fn a_task_whose_priority_changes_moves_and_keeps_its_place_among_equals() {
    let shop = Shop::new();
    let ids: Vec<_> = [5, 5, 5, 1].map(|priority| shop.enqueue(task(1).priority(priority))).into();
    let later = shop.enqueue(task(1).delay(secs(60)));
    assert!(amend(&shop, ids[3], Amendment::new().priority(5)));
    assert!(amend(&shop, ids[0], Amendment::new().priority(4)));
    assert!(amend(&shop, later, Amendment::new().priority(u64::MAX)));
    let served = |max| shop.claim(max).iter().map(|claim| (claim.id, claim.priority)).collect::<Vec<_>>();
    assert_eq!(served(3), [(ids[1], 5), (ids[2], 5), (ids[3], 5)]);
    shop.pass(secs(60));
    assert_eq!(served(1), [(later, u64::MAX)], "its instant stays, its rank at that instant is new");
}

fn a_task_in_flight_keeps_its_lease_and_its_new_priority_counts_when_it_is_back() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    let claim = shop.claim_one();
    shop.enqueue(task(2).priority(1));
    assert!(amend(&shop, id, Amendment::new().priority(2)));
    assert!(matches!(shop.state(id), TaskState::InFlight { deadline, .. } if deadline == claim.deadline));
    assert!(block_on(shop.queue.release(&claim)).unwrap().is_applied());
    assert_eq!(shop.claim_one().id, id);
}

fn a_new_backoff_counts_from_the_next_failure() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).backoff(Backoff::fixed(secs(60))));
    assert!(shop.fail(&shop.claim_one()).is_applied());
    let due = shop.now().saturating_add(secs(60));
    assert!(amend(&shop, id, Amendment::new().backoff(Backoff::fixed(secs(5)))));
    assert_eq!(shop.state(id), TaskState::Scheduled { due });
    shop.pass(secs(60));
    assert!(shop.fail(&shop.claim_one()).is_applied());
    assert_eq!(shop.state(id), TaskState::Scheduled { due: shop.now().saturating_add(secs(5)) });
}

fn c21_attempts_below_the_failures_make_a_waiting_task_dead_at_once_and_a_sweep_tells() {
    for (delay, state) in [(0, StateKind::Ready), (9, StateKind::Scheduled)] {
        let shop = Shop::new();
        let claim = failed(&shop, 3, task(1));
        assert!(block_on(shop.queue.snooze(&claim, Due::After(secs(delay)))).unwrap().is_applied());
        assert_eq!(shop.state(claim.id).kind(), state);
        assert!(amend(&shop, claim.id, attempts(4)));
        assert_eq!(shop.state(claim.id).kind(), state, "one is left");
        assert!(amend(&shop, claim.id, attempts(3)));
        assert!(is_spent(&shop, claim.id));
        assert_eq!((died(&shop), died(&shop)), (vec![claim.id], vec![]));
        assert!(!amend(&shop, claim.id, attempts(9)), "it has finished");
        assert!(block_on(shop.queue.retry(claim.id)).unwrap());
        assert_eq!(shop.claim_one().max_attempts, 3);
    }
}

fn c21_a_claim_serves_the_others_past_tasks_whose_attempts_were_lowered_in_flight() {
    let shop = Shop::new();
    let spent: Vec<_> = (0..3).map(|n| failed(&shop, 2, task(n).priority(9))).collect();
    for claim in &spent {
        assert!(amend(&shop, claim.id, attempts(1)));
        assert!(block_on(shop.queue.release(claim)).unwrap().is_applied());
    }
    let others: Vec<_> = (0..3).map(|n| shop.enqueue(task(n))).collect();
    let claimed = shop.claim(3).iter().map(|claim| claim.id).collect::<Vec<_>>();
    assert_eq!(claimed, others);
    assert!(spent.iter().all(|claim| is_spent(&shop, claim.id)));
    assert_eq!(died(&shop), spent.iter().map(|claim| claim.id).collect::<Vec<_>>());
}

fn c21_a_task_in_flight_whose_attempts_are_lowered_may_complete_and_dies_of_its_next_failure() {
    let shop = Shop::new();
    let [completes, fails] = [0, 1].map(|n| failed(&shop, 2, task(n)));
    for claim in [&completes, &fails] {
        assert!(amend(&shop, claim.id, attempts(1)));
        assert!(!claim.would_die(&Retry::ByPolicy), "the claim knows only what was so when it was made");
    }
    assert!(shop.complete(&completes).is_applied());
    assert_eq!(shop.fail(&fails), FencedCommit::Applied);
    assert!(is_spent(&shop, fails.id));
    assert_eq!((shop.counters(fails.id).failures, died(&shop)), (3, vec![]));
}

fn more_attempts_spare_a_task_that_would_have_died() {
    let shop = Shop::new();
    let claim = failed(&shop, 2, task(1).max_attempts(3));
    assert!(claim.would_die(&Retry::ByPolicy));
    assert!(amend(&shop, claim.id, attempts(4)));
    assert!(shop.fail(&claim).is_applied());
    assert_eq!(shop.record(claim.id).max_attempts, 4);
    assert!(shop.claim_one().would_die(&Retry::ByPolicy));
}

fn no_attempts_at_all_are_refused_by_value_and_nothing_changes() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).priority(3));
    let refused = block_on(shop.queue.amend(id, attempts(0).priority(9))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(refused.to_string(), "max_attempts is 0; it takes at least 1");
    let record = shop.record(id);
    assert_eq!((record.priority, record.max_attempts), (3, 20));
    assert!(!amend(&shop, TaskId::from_u64(1), attempts(1)), "there is no such task");
}

fn a_task_that_dies_of_an_amendment_holds_its_key_to_the_end_of_its_window() {
    let shop = Shop::new();
    let keyed = || task(1).idempotency_key_for("k", secs(60));
    let claim = failed(&shop, 2, keyed());
    assert!(block_on(shop.queue.release(&claim)).unwrap().is_applied());
    assert!(amend(&shop, claim.id, attempts(1)));
    assert!(block_on(shop.queue.enqueue(keyed())).unwrap().deduplicated);
    shop.pass(secs(60));
    assert!(!block_on(shop.queue.enqueue(keyed())).unwrap().deduplicated);
}
