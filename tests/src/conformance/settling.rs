//! Batches and assertions: each item of a settle stands alone, and a commit that is refused leaves the lease.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::{
    Backoff, ClaimedTask, Completion, Decision, Due, Effects, ErrorKind, FencedCommit, Heartbeat, HeartbeatOutcome,
    Json, LeaseLength, Retry, Settlement, StateKind,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c54_each_item_of_a_settle_stands_alone,
    the_same_claim_twice_in_one_settle_applies_once,
    assertions_look_at_the_state_before_the_commit_and_items_see_those_before_them,
    an_enqueue_whose_assertion_fails_leaves_nothing,
    c61_c63_heartbeats_of_a_batch_stand_alone_and_the_last_progress_is_seen_after_a_failure,
    c31_a_chain_of_follow_ups_has_one_link_at_any_time,
];

fn enqueue(shop: &Shop, tasks: u64) {
    for n in 0..tasks {
        shop.enqueue(task(n).backoff(Backoff::none()));
    }
}

fn completes(claim: &ClaimedTask, effects: Effects) -> Settlement {
    Settlement::new(claim, Decision::Complete(Completion::new().effects(effects)))
}

fn c54_each_item_of_a_settle_stands_alone() {
    let shop = Shop::new();
    enqueue(&shop, 6);
    let claims = shop.claim(6);
    let mut stale = claims[1].clone();
    stale.token = aedb_queue::FencingToken::from_u64(99);
    let items = vec![
        completes(&claims[0], Effects::new().put("0", "yes")),
        completes(&stale, Effects::new().put("1", "no")),
        completes(&claims[2], Effects::new().put("2", "no").assert_present("missing")),
        Settlement::new(&claims[3], Decision::Fail { error: "no".into(), retry: Retry::Fatal }),
        Settlement::new(&claims[4], Decision::Snooze(Due::After(secs(5)))),
        Settlement::new(&claims[5], Decision::Release),
    ];
    let answers = block_on(shop.queue.settle(items)).unwrap();
    let applied: Vec<_> = answers.iter().map(|answer| matches!(answer, Ok(FencedCommit::Applied))).collect();
    assert_eq!(applied, [true, false, false, true, true, true]);
    assert_eq!(answers[2].as_ref().unwrap_err().kind(), ErrorKind::Conflict);
    let states: Vec<_> = claims.iter().map(|claim| shop.state(claim.id).kind()).collect();
    use StateKind::{Dead, Done, InFlight, Ready, Scheduled};
    assert_eq!(states, [Done, InFlight, InFlight, Dead, Scheduled, Ready]);
    assert_eq!((shop.key("0").is_some(), shop.key("1"), shop.key("2")), (true, None, None));
    assert!(shop.complete(&claims[1]).is_applied() && shop.complete(&claims[2]).is_applied());
}

fn the_same_claim_twice_in_one_settle_applies_once() {
    let shop = Shop::new();
    shop.enqueue(task(1));
    let claim = shop.claim_one();
    let items = ["a", "b"].map(|key| completes(&claim, Effects::new().put(key, "")));
    let answers = block_on(shop.queue.settle(items.into())).unwrap();
    assert!(answers[0].as_ref().unwrap().is_applied() && !answers[1].as_ref().unwrap().is_applied());
    assert_eq!((shop.key("a").is_some(), shop.key("b").is_some()), (true, false));
}

fn assertions_look_at_the_state_before_the_commit_and_items_see_those_before_them() {
    let shop = Shop::new();
    enqueue(&shop, 2);
    let claims = shop.claim(2);
    let items = claims.iter().map(|claim| completes(claim, Effects::new().put("k", "v").assert_absent("k"))).collect();
    let answers = block_on(shop.queue.settle(items)).unwrap();
    assert!(answers[0].as_ref().unwrap().is_applied());
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Conflict);
}

fn an_enqueue_whose_assertion_fails_leaves_nothing() {
    let shop = Shop::new();
    let effects = Effects::new().put("a", "1").enqueue("other", task(2)).assert_value("k", "v");
    assert_eq!(block_on(shop.queue.enqueue_with(task(1), effects)).unwrap_err().kind(), ErrorKind::Conflict);
    assert!(shop.claim(9).is_empty() && shop.key("a").is_none());
    assert!(block_on(shop.db.default_scope().queues()).unwrap().is_empty());
}

fn c61_c63_heartbeats_of_a_batch_stand_alone_and_the_last_progress_is_seen_after_a_failure() {
    let shop = Shop::new();
    enqueue(&shop, 2);
    let claims = shop.claim(2);
    let mut late = claims[1].clone();
    late.token = aedb_queue::FencingToken::from_u64(0);
    let beats = (1..=100).map(|n: u32| (&claims[0], n)).chain([(&late, 7)]);
    let beats = beats.map(|(claim, n)| Heartbeat::new(claim, LeaseLength::secs(60)).progress(Json::of(&n).unwrap()));
    let answers = block_on(shop.queue.heartbeat_batch(beats.collect())).unwrap();
    assert!(answers[..100].iter().all(|answer| matches!(answer, HeartbeatOutcome::Extended(_))));
    assert!(matches!(answers[100], HeartbeatOutcome::LeaseLost(_)));
    assert_eq!(shop.record(claims[1].id).progress, None);
    assert!(shop.fail(&claims[0]).is_applied());
    assert_eq!(shop.claim_one().progress.unwrap().as_str(), "100");
}

fn c31_a_chain_of_follow_ups_has_one_link_at_any_time() {
    let shop = Shop::new();
    shop.enqueue(task(0));
    for n in 1..=200 {
        let claim = shop.claim_one();
        if n % 3 == 0 {
            shop.outlive_leases();
            let again = shop.claim_one();
            let late = Completion::new().follow_up("q", task(n));
            assert!(!block_on(shop.queue.complete(&claim, late)).unwrap().is_applied());
            let next = Completion::new().follow_up("q", task(n)).keep(secs(0));
            assert!(block_on(shop.queue.complete(&again, next)).unwrap().is_applied());
        } else {
            let next = Completion::new().follow_up("q", task(n)).keep(secs(0));
            assert!(block_on(shop.queue.complete(&claim, next)).unwrap().is_applied());
        }
        let stats = block_on(shop.queue.stats()).unwrap();
        assert_eq!((stats.ready, stats.in_flight), (1, 0));
    }
}
