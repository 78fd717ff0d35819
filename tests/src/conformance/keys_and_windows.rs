//! Idempotency keys: one task per key while it lives and for a window after, however it ended.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::{Backoff, NewTask, RetentionLimits, Retry, TaskId};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c48_a_key_is_held_to_the_end_of_its_window_whatever_the_end_was,
    c48_a_key_outlives_the_pruned_record_of_its_task,
    c48_a_key_of_a_task_without_retention_is_held_all_the_same,
    c48_deleting_a_task_frees_its_key_and_a_window_of_zero_ends_with_the_task,
    c48_a_task_that_lives_again_holds_its_key_again_whether_it_was_swept_or_not,
    c48_a_task_whose_key_has_gone_to_another_is_not_retried,
    the_same_key_with_another_payload_or_name_is_reported,
    keys_are_apart_in_each_queue_and_scope_and_within_one_batch_they_count,
    a_failure_between_attempts_does_not_start_the_window,
];

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

fn keyed(shop: &Shop) -> aedb_queue::EnqueueOutcome {
    block_on(shop.queue.enqueue(task(1).idempotency_key("k"))).unwrap()
}

/// Every way in which a task may end.
fn end(shop: &Shop, id: TaskId, how: &str) {
    match how {
        "done" => assert!(shop.complete(&shop.claim_one()).is_applied()),
        "dead" => {
            assert!(block_on(shop.queue.fail_with(&shop.claim_one(), "no", Retry::Fatal)).unwrap().is_applied());
        }
        "cancelled" => assert!(block_on(shop.queue.cancel(id)).unwrap()),
        _ => unreachable!(),
    }
}

fn c48_a_key_is_held_to_the_end_of_its_window_whatever_the_end_was() {
    for how in ["done", "dead", "cancelled"] {
        let shop = Shop::new();
        let first = keyed(&shop);
        shop.pass(secs(3 * DAY));
        assert!(keyed(&shop).deduplicated, "unfinished tasks hold their key");
        end(&shop, first.id, how);
        shop.pass(secs(DAY - 1));
        let again = keyed(&shop);
        assert_eq!((again.id, again.deduplicated), (first.id, true), "{how}");
        shop.pass(secs(1));
        let next = keyed(&shop);
        assert!(!next.deduplicated && next.id > first.id, "{how}");
    }
}

fn c48_a_key_outlives_the_pruned_record_of_its_task() {
    let shop = Shop::new();
    let first = block_on(shop.queue.enqueue(task(1).idempotency_key("k").keep_done(secs(HOUR)))).unwrap();
    end(&shop, first.id, "done");
    shop.pass(secs(2 * HOUR));
    assert_eq!(block_on(shop.queue.sweep(RetentionLimits::default())).unwrap().pruned, 1);
    assert_eq!(keyed(&shop).id, first.id);
    shop.pass(secs(DAY));
    assert_eq!(block_on(shop.queue.sweep(RetentionLimits::default())).unwrap().keys_expired, 1);
    assert!(!keyed(&shop).deduplicated);
}

fn c48_a_key_of_a_task_without_retention_is_held_all_the_same() {
    let shop = Shop::new();
    let first = block_on(shop.queue.enqueue(task(1).idempotency_key("k").keep_done(secs(0)))).unwrap();
    end(&shop, first.id, "done");
    assert!(block_on(shop.queue.get(first.id)).unwrap().is_none());
    assert_eq!(keyed(&shop).id, first.id);
}

fn c48_deleting_a_task_frees_its_key_and_a_window_of_zero_ends_with_the_task() {
    let shop = Shop::new();
    let first = keyed(&shop);
    assert!(block_on(shop.queue.delete(first.id)).unwrap());
    assert!(!keyed(&shop).deduplicated);

    let short = || block_on(shop.queue.enqueue(task(9).priority(9).idempotency_key_for("s", secs(0)))).unwrap();
    let one = short();
    assert!(short().deduplicated);
    end(&shop, one.id, "done");
    assert!(!short().deduplicated);
}

fn c48_a_task_that_lives_again_holds_its_key_again_whether_it_was_swept_or_not() {
    for swept in [false, true] {
        for how in ["dead", "cancelled"] {
            let shop = Shop::new();
            let first = block_on(shop.queue.enqueue(task(1).idempotency_key_for("k", secs(HOUR)))).unwrap();
            end(&shop, first.id, how);
            shop.pass(secs(2 * HOUR));
            if swept {
                assert_eq!(block_on(shop.queue.sweep(RetentionLimits::default())).unwrap().keys_expired, 1);
            }
            assert!(block_on(shop.queue.retry(first.id)).unwrap());
            let again = keyed(&shop);
            assert_eq!((again.id, again.deduplicated, again.differs), (first.id, true, false), "{how}, swept: {swept}");
        }
    }
}

fn c48_a_task_whose_key_has_gone_to_another_is_not_retried() {
    let shop = Shop::new();
    let first = keyed(&shop);
    end(&shop, first.id, "dead");
    shop.pass(secs(DAY));
    let next = keyed(&shop);
    assert_ne!(next.id, first.id);
    assert!(!block_on(shop.queue.retry(first.id)).unwrap());
}

fn the_same_key_with_another_payload_or_name_is_reported() {
    let shop = Shop::new();
    let first = keyed(&shop);
    let other_payload = block_on(shop.queue.enqueue(task(2).idempotency_key("k"))).unwrap();
    let other_name = block_on(shop.queue.enqueue(NewTask::new("m", &1).unwrap().idempotency_key("k"))).unwrap();
    for outcome in [other_payload, other_name] {
        assert_eq!((outcome.id, outcome.deduplicated, outcome.differs), (first.id, true, true));
    }
}

fn keys_are_apart_in_each_queue_and_scope_and_within_one_batch_they_count() {
    let shop = Shop::new();
    keyed(&shop);
    let others = [
        shop.db.queue("other").unwrap(),
        shop.db.scope("default", "other").unwrap().queue("q").unwrap(),
        shop.db.scope("other", "default").unwrap().queue("q").unwrap(),
    ];
    for queue in others {
        assert!(!block_on(queue.enqueue(task(1).idempotency_key("k"))).unwrap().deduplicated);
    }
    let batch = vec![task(1).idempotency_key("b"), task(1).idempotency_key("b")];
    let outcomes = block_on(shop.queue.enqueue_batch(batch)).unwrap();
    assert_eq!((outcomes[0].deduplicated, outcomes[1].deduplicated), (false, true));
}

fn a_failure_between_attempts_does_not_start_the_window() {
    let shop = Shop::new();
    let task = task(1).idempotency_key_for("k", secs(1)).backoff(Backoff::fixed(secs(HOUR)));
    let first = block_on(shop.queue.enqueue(task)).unwrap();
    assert!(shop.fail(&shop.claim_one()).is_applied());
    shop.pass(secs(30 * 60));
    block_on(shop.queue.sweep(RetentionLimits::default())).unwrap();
    assert_eq!(keyed(&shop).id, first.id);
}
