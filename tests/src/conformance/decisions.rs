//! Discard and continue: the two decisions that neither complete a task nor fail it.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::limits::{ERROR_BYTES, PAYLOAD_BYTES};
use aedb_queue::{
    Due, Effects, ErrorKind, Explanation, FencedCommit, Json, LeaseLength, LeaseLoss, RetentionLimits, StateKind,
    TaskState,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    a_discarded_task_is_cancelled_and_its_record_and_explain_say_why,
    a_second_discard_tells_that_the_first_was_applied_and_a_stale_one_changes_nothing,
    a_long_reason_is_cut_and_a_discarded_task_can_be_retried,
    a_continued_task_is_the_same_one_with_a_new_payload_a_fresh_start_and_its_old_place,
    a_continued_task_may_be_due_later_and_then_waits_for_that_and_not_for_an_old_failure,
    a_continue_that_is_stale_too_large_or_refused_by_an_assertion_leaves_everything,
    a_finished_record_that_is_not_kept_goes_with_its_discard,
];

fn json(text: &str) -> Json {
    Json::of(text).unwrap()
}

fn a_discarded_task_is_cancelled_and_its_record_and_explain_say_why() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).keep_done(secs(60)));
    let claim = shop.claim_one();
    assert!(block_on(shop.queue.discard(&claim, "the order was taken back\0")).unwrap().is_applied());
    let record = shop.record(id);
    let said = record.failures.last().unwrap();
    assert_eq!(record.state, TaskState::Cancelled { at: shop.now() });
    assert_eq!((said.at, said.attempt, &*said.error), (shop.now(), 1, "the order was taken back\u{fffd}"));
    assert_eq!((record.counters.failures, record.counters.attempts), (0, 1));
    let why = block_on(shop.queue.explain(id)).unwrap();
    assert!(matches!(&why, Explanation::Discarded { reason, .. } if reason.starts_with("the order")), "{why}");
    shop.pass(secs(60));
    block_on(shop.queue.sweep(RetentionLimits::default())).unwrap();
    assert_eq!(block_on(shop.queue.get(id)).unwrap(), None);
}

fn a_second_discard_tells_that_the_first_was_applied_and_a_stale_one_changes_nothing() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    let stale = shop.claim_one();
    shop.outlive_leases();
    let claim = shop.claim_one();
    let lost = |claim| block_on(shop.queue.discard(claim, "no")).unwrap();
    assert_eq!(lost(&stale), FencedCommit::LeaseLost(LeaseLoss::TakenOver));
    assert_eq!(shop.state(claim.id).kind(), StateKind::InFlight);
    assert_eq!(lost(&claim), FencedCommit::Applied);
    assert_eq!(lost(&claim), FencedCommit::LeaseLost(LeaseLoss::AlreadySettled));
    assert_eq!(shop.record(claim.id).failures.len(), 1);
}

fn a_long_reason_is_cut_and_a_discarded_task_can_be_retried() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    let claim = shop.claim_one();
    assert!(block_on(shop.queue.discard(&claim, "x".repeat(1 << 20))).unwrap().is_applied());
    assert!(shop.record(id).failures[0].error.len() <= ERROR_BYTES);
    assert!(block_on(shop.queue.retry(id)).unwrap());
    assert_eq!(shop.claim_one().counters.attempts, 2);
}

fn a_continued_task_is_the_same_one_with_a_new_payload_a_fresh_start_and_its_old_place() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).max_attempts(2).idempotency_key("walk").priority(3));
    let behind = shop.enqueue(task(2).priority(3));
    let first = shop.claim_one();
    assert!(shop.fail(&first).is_applied());
    shop.pass(secs(3600));
    let claim = shop.claim_one();
    assert_eq!((claim.id, claim.counters.failures), (id, 1));
    let progress = Some(json(&"p".repeat(1000)));
    let _ = block_on(shop.queue.heartbeat(&claim, LeaseLength::secs(30), progress)).unwrap();
    let page = json(&"page 2".repeat(200));
    let effects = Effects::new().put("pages", "1").enqueue("other", task(7));
    assert!(block_on(shop.queue.continue_with(&claim, page.clone(), effects, Due::Now)).unwrap().is_applied());
    assert_eq!(shop.key("pages").as_deref(), Some("1"));
    assert_eq!(block_on(shop.db.queue("other").unwrap().stats()).unwrap().ready, 1);
    let record = shop.record(id);
    assert_eq!((record.payload, record.progress, record.counters.failures), (page, None, 0));
    assert_eq!((record.priority, record.idempotency_key.as_deref()), (3, Some("walk")));
    let again = shop.claim(2);
    assert_eq!(again.iter().map(|claim| claim.id).collect::<Vec<_>>(), [id, behind]);
    assert!(again[0].token > claim.token);
    // The budget of two failures is whole again.
    assert!(shop.fail(&again[0]).is_applied());
    assert_eq!(shop.state(id).kind(), StateKind::Scheduled);
    let twice = block_on(shop.queue.enqueue(task(1).idempotency_key("walk"))).unwrap();
    assert_eq!((twice.id, twice.deduplicated, twice.differs), (id, true, false));
}

fn a_continued_task_may_be_due_later_and_then_waits_for_that_and_not_for_an_old_failure() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    assert!(shop.fail(&shop.claim_one()).is_applied());
    shop.pass(secs(3600));
    let claim = shop.claim_one();
    let later = Due::After(secs(10));
    assert!(block_on(shop.queue.continue_with(&claim, Json::null(), Effects::new(), later)).unwrap().is_applied());
    let why = block_on(shop.queue.explain(id)).unwrap();
    assert!(matches!(why, Explanation::NotDue { after: None, .. }), "{why}");
    assert!(shop.claim(1).is_empty());
    shop.pass(secs(10));
    assert_eq!(shop.claim_one().id, id);
}

fn a_continue_that_is_stale_too_large_or_refused_by_an_assertion_leaves_everything() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    let stale = shop.claim_one();
    shop.outlive_leases();
    let claim = shop.claim_one();
    let go_on = |claim, payload, effects| block_on(shop.queue.continue_with(claim, payload, effects, Due::Now));
    let lost = go_on(&stale, json("new"), Effects::new().put("k", "v")).unwrap();
    assert_eq!(lost, FencedCommit::LeaseLost(LeaseLoss::TakenOver));
    let error = go_on(&claim, json(&"x".repeat(PAYLOAD_BYTES)), Effects::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("payload bytes") && error.to_string().contains("1048578"), "{error}");
    let refused = Effects::new().put("k", "v").assert_present("missing");
    assert_eq!(go_on(&claim, json("new"), refused).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!((shop.key("k"), shop.record(claim.id).payload.as_str()), (None, "1"));
    assert!(shop.complete(&claim).is_applied());
}

fn a_finished_record_that_is_not_kept_goes_with_its_discard() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1).keep_done(secs(0)));
    assert!(block_on(shop.queue.discard(&shop.claim_one(), "no")).unwrap().is_applied());
    assert_eq!(block_on(shop.queue.get(id)).unwrap(), None);
}
