//! What a claimed task carries, and one made by hand.

use crate::conformance::{Rule, rules};
use crate::{Shop, task};
use aedb_queue::{ClaimedTask, FencedCommit, Json, LeaseLoss};

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    a_claim_carries_the_metadata_and_both_budgets,
    a_detached_task_looks_like_a_first_attempt_and_no_store_takes_a_write_from_it,
];

fn a_claim_carries_the_metadata_and_both_budgets() {
    let shop = Shop::new();
    shop.enqueue(task(1).metadata("trace", "7").max_attempts(3).max_lost_leases(2));
    let claim = shop.claim_one();
    assert_eq!(claim.metadata, [("trace".into(), "7".into())]);
    assert_eq!((claim.max_attempts, claim.max_lost_leases), (3, 2));
    assert!(shop.fail(&claim).is_applied());
    shop.pass(std::time::Duration::from_secs(3600));
    assert_eq!(shop.claim_one().counters.failures, 1);
}

fn a_detached_task_looks_like_a_first_attempt_and_no_store_takes_a_write_from_it() {
    let shop = Shop::new();
    let mut detached = ClaimedTask::detached("q", "n", Json::null());
    assert_eq!((detached.counters.attempts, detached.counters.deliveries, detached.max_attempts), (1, 1, 20));
    assert_eq!(shop.complete(&detached), FencedCommit::LeaseLost(LeaseLoss::Gone));
    shop.enqueue(task(1));
    detached.id = shop.claim_one().id;
    assert_eq!(shop.complete(&detached), FencedCommit::LeaseLost(LeaseLoss::TakenOver));
}
