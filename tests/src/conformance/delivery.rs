//! Delivery: nothing is lost, nothing is early, nothing is served twice; order is priority, then first in, first out.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::conformance::{Rule, rules};
use crate::{Dice, Shop, claims, secs, task};
use aedb_queue::{Amendment, Backoff, Completion, Effects, ErrorKind, NewTask, RetentionLimits, TaskId, Timestamp};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c01_twenty_thousand_delayed_tasks_exist_once_at_every_step_of_their_promotion,
    c09_a_delayed_task_is_claimed_by_nobody_before_it_is_due_and_by_one_after,
    c09_one_microsecond_before_the_due_instant_is_too_early,
    c33_priority_is_strict_and_whoever_waits_behind_it_is_seen_and_can_be_raised,
    c34_a_task_that_failed_keeps_its_place_before_later_arrivals,
    c35_a_claim_serves_the_highest_priority_of_a_thousand_due_tasks_of_any_name_and_due_instant,
    c36_priorities_of_the_whole_range_sort_as_numbers_over_all_names,
    c36_the_longest_delay_is_never_and_no_delay_is_now,
    c54_a_batch_with_one_bad_task_enqueues_none,
    c60_one_due_task_is_claimed_among_ten_thousand_that_are_due_in_a_year,
    a_completion_and_its_result_effects_and_follow_ups_appear_together,
    a_follow_up_whose_key_exists_is_left_out_and_does_not_block_the_completion,
    a_claim_by_names_serves_only_those_in_priority_order,
    ids_grow_though_the_clock_goes_back,
];

/// Claims until nothing is left, completing everything; answers the ids in the order of claims.
fn drain(shop: &Shop) -> Vec<TaskId> {
    let mut served = Vec::new();
    loop {
        let claimed = shop.claim(5_000);
        if claimed.is_empty() {
            return served;
        }
        for claim in &claimed {
            assert!(shop.complete(claim).is_applied());
        }
        served.extend(claimed.iter().map(|claim| claim.id));
    }
}

fn c01_twenty_thousand_delayed_tasks_exist_once_at_every_step_of_their_promotion() {
    let shop = Shop::new();
    let mut enqueued = BTreeSet::new();
    for from in [0, 10_000] {
        let tasks = (from..from + 10_000).map(|n| task(n).delay(secs(1))).collect();
        enqueued.extend(block_on(shop.queue.enqueue_batch(tasks)).unwrap().into_iter().map(|outcome| outcome.id));
    }
    shop.pass(secs(1));
    loop {
        let report = block_on(shop.queue.sweep(RetentionLimits { steps: 3_000, ..Default::default() })).unwrap();
        let stats = block_on(shop.queue.stats()).unwrap();
        assert_eq!(stats.scheduled + stats.ready + stats.in_flight, 20_000);
        if !report.more {
            break;
        }
    }
    let claimed = [shop.claim(10_000), shop.claim(10_000)].concat();
    assert_eq!(claimed.iter().map(|claim| claim.id).collect::<BTreeSet<_>>(), enqueued);
    assert!(shop.claim(1).is_empty());
}

fn c09_a_delayed_task_is_claimed_by_nobody_before_it_is_due_and_by_one_after() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).delay(secs(7_200)));
    for _ in 0..240 {
        for worker in ["a", "b", "c", "d"] {
            assert!(shop.claim_as(worker, 10).is_empty());
        }
        shop.outlive_leases();
    }
    let claimed: Vec<_> = ["a", "b", "c", "d"].into_iter().flat_map(|worker| shop.claim_as(worker, 10)).collect();
    assert_eq!(claimed.iter().map(|claim| (claim.id, claim.counters.attempts)).collect::<Vec<_>>(), [(id, 1)]);
}

fn c09_one_microsecond_before_the_due_instant_is_too_early() {
    let shop = Shop::new();
    shop.enqueue(task(1).at(shop.now().saturating_add(secs(5))));
    shop.pass(secs(5) - Duration::from_micros(1));
    assert!(shop.claim(1).is_empty());
    shop.pass(Duration::from_micros(1));
    assert_eq!(shop.claim(1).len(), 1);
}

fn c33_priority_is_strict_and_whoever_waits_behind_it_is_seen_and_can_be_raised() {
    let shop = Shop::new();
    let low = shop.enqueue(task(0));
    let since = shop.now();
    for _ in 0..60 {
        shop.enqueue(task(1).priority(1));
        let claim = shop.claim_one();
        assert!(claim.id != low && shop.complete(&claim).is_applied());
        shop.pass(secs(600));
    }
    assert_eq!(block_on(shop.queue.stats()).unwrap().oldest_ready, Some(since), "ten hours, for an alert to see");
    assert!(block_on(shop.queue.amend(low, Amendment::new().priority(1))).unwrap());
    shop.enqueue(task(1).priority(1));
    assert_eq!(shop.claim_one().id, low, "among equals the oldest is first");
}

fn c34_a_task_that_failed_keeps_its_place_before_later_arrivals() {
    let shop = Shop::new();
    let ids: Vec<_> = (0..3).map(|n| shop.enqueue(task(n).backoff(Backoff::none()))).collect();
    let first = shop.claim_one();
    assert!(shop.fail(&first).is_applied());
    assert_eq!(drain(&shop), ids);
}

fn c35_a_claim_serves_the_highest_priority_of_a_thousand_due_tasks_of_any_name_and_due_instant() {
    let (shop, mut dice) = (Shop::new(), Dice::new(35));
    let mut priorities: Vec<u64> = (0..1_000).collect();
    dice.shuffle(&mut priorities);
    for &priority in &priorities {
        let delay = secs(dice.roll(60));
        let name = ["a", "b", "c"][dice.roll(3) as usize];
        shop.enqueue(NewTask::new(name, &priority).unwrap().priority(priority).delay(delay));
    }
    shop.pass(secs(60));
    for expected in (0..1_000).rev() {
        assert_eq!(shop.claim_one().priority, expected);
    }
}

fn c36_priorities_of_the_whole_range_sort_as_numbers_over_all_names() {
    let shop = Shop::new();
    let edges = [0, 1, 1 << 31, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
    for (at, priority) in edges.into_iter().cycle().skip(3).take(edges.len()).enumerate() {
        shop.enqueue(NewTask::new(format!("name{}", at % 3), &priority).unwrap().priority(priority));
    }
    let served: Vec<_> = shop.claim(100).iter().map(|claim| claim.priority).collect();
    assert_eq!(served, edges.into_iter().rev().collect::<Vec<_>>());
}

fn c36_the_longest_delay_is_never_and_no_delay_is_now() {
    let shop = Shop::new();
    let now = shop.enqueue(task(1).delay(Duration::ZERO));
    let past = shop.enqueue(task(2).at(Timestamp::default()));
    shop.enqueue(task(3).delay(Duration::MAX).priority(u64::MAX));
    shop.enqueue(task(4).delay(Duration::from_micros(u64::MAX)).priority(u64::MAX));
    shop.pass(secs(1_000 * 365 * 24 * 3600));
    assert_eq!(drain(&shop), [now, past]);
}

fn c54_a_batch_with_one_bad_task_enqueues_none() {
    let shop = Shop::new();
    let tasks = (0..10).map(|n| if n == 7 { task(n).max_attempts(0) } else { task(n) }).collect();
    assert_eq!(block_on(shop.queue.enqueue_batch(tasks)).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(shop.claim(10).is_empty());
}

fn c60_one_due_task_is_claimed_among_ten_thousand_that_are_due_in_a_year() {
    let shop = Shop::new();
    block_on(shop.queue.enqueue_batch((0..10_000).map(|n| task(n).delay(secs(365 * 24 * 3600))).collect())).unwrap();
    let due = shop.enqueue(task(1));
    assert_eq!(drain(&shop), [due]);
    assert_eq!(block_on(shop.queue.stats()).unwrap().scheduled, 10_000);
}

fn a_completion_and_its_result_effects_and_follow_ups_appear_together() {
    let shop = Shop::new();
    let other = shop.db.queue("other").unwrap();
    let id = shop.enqueue(task(1));
    let claim = shop.claim_one();
    let completion = Completion::new()
        .result(aedb_queue::Json::of("paid").unwrap())
        .effects(Effects::new().put("order", "paid"))
        .follow_up("other", task(2).idempotency_key("once"));
    assert!(block_on(shop.queue.complete(&claim, completion)).unwrap().is_applied());
    assert_eq!(shop.key("order").as_deref(), Some("paid"));
    assert_eq!(shop.record(id).result.map(|result| result.to::<String>().unwrap()).as_deref(), Some("paid"));
    assert_eq!(block_on(other.claim(claims("w").max(9))).unwrap().len(), 1);
}

fn a_follow_up_whose_key_exists_is_left_out_and_does_not_block_the_completion() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    let claim = shop.claim_one();
    let before = shop.enqueue(task(2).idempotency_key("k"));
    let completion = Completion::new().follow_up("q", task(3).idempotency_key("k"));
    assert!(block_on(shop.queue.complete(&claim, completion)).unwrap().is_applied());
    assert_eq!(drain(&shop), [before]);
}

fn a_claim_by_names_serves_only_those_in_priority_order() {
    let shop = Shop::new();
    for (name, priority) in [("a", 1), ("b", 3), ("a", 2), ("c", 9), ("b", 0)] {
        shop.enqueue(NewTask::new(name, &()).unwrap().priority(priority));
    }
    let served = block_on(shop.queue.claim(claims("w").max(9).names(["a", "b"]))).unwrap();
    assert_eq!(served.iter().map(|claim| claim.priority).collect::<Vec<_>>(), [3, 2, 1, 0]);
}

fn ids_grow_though_the_clock_goes_back() {
    let shop = Shop::new();
    let first = shop.enqueue(task(1));
    shop.clock.set(Timestamp::from_micros(1));
    let second = shop.enqueue(task(2));
    assert!(second > first);
    assert_eq!(drain(&shop), [first, second]);
}
