//! Fencing: who lost the lease changes nothing, and of all who want to take a task over exactly one does.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::{
    Completion, Due, Effects, FencedCommit, HeartbeatOutcome, Json, LeaseLength, LeaseLoss, RetentionLimits, TaskState,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c08_a_worker_that_slept_through_its_lease_changes_nothing_and_the_next_owner_completes,
    c08_a_second_completion_with_the_same_claim_is_harmless_and_tells,
    c03_a_sweep_after_the_owner_ended_it_resurrects_nothing,
    c03_a_sweep_after_another_worker_took_over_takes_nothing_from_it,
    c15_an_owner_that_gets_its_own_task_again_completes_only_with_the_new_token,
    tokens_only_grow_through_failure_release_snooze_retry_and_cancel,
    a_task_that_was_deleted_is_gone_for_its_old_owner,
];

const LOST: FencedCommit = FencedCommit::LeaseLost(LeaseLoss::TakenOver);

fn c08_a_worker_that_slept_through_its_lease_changes_nothing_and_the_next_owner_completes() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    let a = shop.claim_as("a", 1).remove(0);
    shop.outlive_leases();
    let b = shop.claim_as("b", 1).remove(0);
    assert!(b.token > a.token);
    let late = Completion::new().result(Json::null()).effects(Effects::new().put("by", "a")).follow_up("q", task(2));
    assert_eq!(block_on(shop.queue.complete(&a, late)).unwrap(), LOST);
    let beat = block_on(shop.queue.heartbeat(&a, LeaseLength::secs(3600), Some(Json::null()))).unwrap();
    assert_eq!(beat, HeartbeatOutcome::LeaseLost(LeaseLoss::TakenOver));
    assert_eq!(shop.fail(&a), LOST);
    assert_eq!(block_on(shop.queue.snooze(&a, Due::After(secs(9)))).unwrap(), LOST);
    assert_eq!(block_on(shop.queue.release(&a)).unwrap(), LOST);
    let record = shop.record(id);
    assert_eq!((record.progress, record.token, record.counters.failures), (None, b.token, 0));
    assert!(matches!(record.state, TaskState::InFlight { deadline, .. } if deadline == b.deadline));
    assert_eq!(shop.key("by"), None);
    assert!(shop.complete(&b).is_applied());
    assert!(shop.claim(9).is_empty());
}

fn c08_a_second_completion_with_the_same_claim_is_harmless_and_tells() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    let claim = shop.claim_one();
    assert!(shop.complete(&claim).is_applied());
    let again = Completion::new().effects(Effects::new().put("twice", "yes"));
    let answer = block_on(shop.queue.complete(&claim, again)).unwrap();
    assert_eq!(answer, FencedCommit::LeaseLost(LeaseLoss::AlreadySettled));
    assert_eq!(shop.key("twice"), None);
}

fn c03_a_sweep_after_the_owner_ended_it_resurrects_nothing() {
    for ends_well in [true, false] {
        let shop = Shop::new();
        let id = shop.enqueue(task(1));
        let claim = shop.claim_one();
        shop.outlive_leases();
        let applied = if ends_well { shop.complete(&claim) } else { shop.fail(&claim) };
        assert!(applied.is_applied());
        let before = shop.record(id);
        let report = block_on(shop.queue.sweep(RetentionLimits::default())).unwrap();
        assert_eq!((report.reclaimed, shop.record(id)), (0, before));
    }
}

fn c03_a_sweep_after_another_worker_took_over_takes_nothing_from_it() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    shop.claim_as("a", 1);
    shop.outlive_leases();
    shop.claim_as("b", 1);
    let before = shop.record(id);
    assert_eq!(block_on(shop.queue.sweep(RetentionLimits::default())).unwrap().reclaimed, 0);
    assert_eq!(shop.record(id), before);
}

fn c15_an_owner_that_gets_its_own_task_again_completes_only_with_the_new_token() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    let old = shop.claim_one();
    shop.outlive_leases();
    let new = shop.claim_one();
    assert_eq!((old.id, shop.complete(&old)), (new.id, LOST));
    assert!(shop.complete(&new).is_applied());
}

fn tokens_only_grow_through_failure_release_snooze_retry_and_cancel() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).backoff(aedb_queue::Backoff::none()));
    let mut last = 0;
    for round in 0..30 {
        let claim = shop.claim_one();
        assert!(claim.token.as_u64() > last);
        last = claim.token.as_u64();
        let settled = match round % 5 {
            0 => shop.fail(&claim),
            1 => block_on(shop.queue.release(&claim)).unwrap(),
            2 => block_on(shop.queue.snooze(&claim, Due::Now)).unwrap(),
            3 => {
                assert!(block_on(shop.queue.cancel(id)).unwrap());
                let lost = shop.complete(&claim);
                assert_eq!(lost, FencedCommit::LeaseLost(LeaseLoss::Cancelled));
                assert!(block_on(shop.queue.retry(id)).unwrap());
                assert_eq!(shop.complete(&claim), LOST);
                FencedCommit::Applied
            }
            _ => {
                shop.outlive_leases();
                FencedCommit::Applied
            }
        };
        assert!(settled.is_applied());
    }
}

fn a_task_that_was_deleted_is_gone_for_its_old_owner() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    let claim = shop.claim_one();
    assert!(!block_on(shop.queue.delete(id)).unwrap(), "a running task is not deleted");
    assert!(block_on(shop.queue.cancel(id)).unwrap());
    assert!(block_on(shop.queue.delete(id)).unwrap());
    assert_eq!(shop.complete(&claim), FencedCommit::LeaseLost(LeaseLoss::Gone));
}
