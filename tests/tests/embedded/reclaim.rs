//! The broken disk: lost leases come back at once, and a failed commit loses and doubles nothing.

use std::collections::BTreeSet;

use aedb_queue::{Completion, Db, Effects, ErrorKind, ManualClock, Result, RetentionLimits, StateKind};
use aedb_tests::{FailingDisk, Shop, assert_clean, claims, poll_once, secs, task};
use futures::executor::block_on;

/// A task in flight on a disk that fails after so many steps of a verb; then the program starts anew.
fn broken(steps: u64, verb: impl Fn(&Shop, &aedb_queue::ClaimedTask) -> Result<bool>) -> (Result<bool>, Shop) {
    let (disk, clock) = (FailingDisk::default(), ManualClock::default());
    let shop = Shop::on(disk.open(&clock), clock.clone());
    shop.enqueue(task(1));
    let claim = shop.claim_one();
    disk.allow(steps);
    let answer = verb(&shop, &claim);
    if answer.is_err() {
        disk.mend();
        let later = block_on(shop.queue.enqueue(task(9))).unwrap_err();
        assert_eq!(
            later.kind(),
            ErrorKind::Unavailable,
            "nothing is acknowledged after a failed write, until it is reopened"
        );
    }
    disk.allow(0);
    // The check in its drop reads only.
    drop(shop);
    let shop = Shop::on(disk.open(&clock), clock);
    (answer, shop)
}

/// Runs a verb with a disk that fails after 0, 1, 2, ... steps until it succeeds; `whole` looks at what is there and
/// answers whether the verb was applied.
fn at_every_step(verb: impl Fn(&Shop, &aedb_queue::ClaimedTask) -> Result<bool>, whole: impl Fn(&Shop) -> bool) {
    for steps in 0..1_000 {
        let (answer, shop) = broken(steps, &verb);
        let applied = whole(&shop);
        match answer {
            Ok(_) => {
                assert!(applied, "acknowledged and lost after {steps} steps");
                assert!(steps > 2, "the faults did not fire");
                return;
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => assert!(!applied, "refused and there: {steps}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "after {steps} steps"),
        }
        drop(shop);
    }
    panic!("it never succeeded");
}

#[test]
fn c02_a_failure_that_could_not_be_written_leaves_the_task_in_flight_until_its_lease_runs_out() {
    at_every_step(
        |shop, claim| block_on(shop.queue.fail(claim, "no")).map(|commit| commit.is_applied()),
        |shop| {
            let stats = block_on(shop.queue.stats()).unwrap();
            assert_eq!(stats.in_flight + stats.scheduled, 1);
            if stats.in_flight == 1 {
                assert!(shop.claim(1).is_empty());
            }
            shop.outlive_leases();
            let again = shop.claim_one();
            assert_eq!(again.token.as_u64(), 2);
            assert_eq!(u64::from(again.counters.failures), stats.scheduled);
            stats.scheduled == 1
        },
    );
}

#[test]
fn c04_a_completion_is_whole_or_absent_wherever_the_disk_fails() {
    at_every_step(
        |shop, claim| {
            let completion = Completion::new()
                .result(aedb_queue::Json::of("done")?)
                .effects(Effects::new().put("a", "1").put("b", "2"))
                .follow_up("q", task(2).priority(1))
                .follow_up("other", task(3));
            block_on(shop.queue.complete(claim, completion)).map(|commit| commit.is_applied())
        },
        |shop| {
            let stats = block_on(shop.queue.stats()).unwrap();
            let other = shop.db.queue("other").unwrap();
            let others = block_on(other.stats()).unwrap().ready;
            let applied = stats.done == 1;
            let whole = if applied { (1, 0, 1, 1) } else { (0, 1, 0, 0) };
            assert_eq!((stats.done, stats.in_flight, stats.ready, others), whole);
            assert_eq!([shop.key("a").is_some(), shop.key("b").is_some()], [applied; 2]);
            assert_clean(&other);
            applied
        },
    );
}

#[test]
fn c04_an_enqueue_with_effects_is_whole_or_absent_wherever_the_disk_fails() {
    at_every_step(
        |shop, _| block_on(shop.queue.enqueue_with(task(2), Effects::new().put("a", "1"))).map(|_| true),
        |shop| {
            let there = block_on(shop.queue.stats()).unwrap().ready == 1;
            assert_eq!(shop.key("a").is_some(), there);
            there
        },
    );
}

#[test]
fn c02_a_claim_that_could_not_be_written_leaves_the_task_claimable() {
    at_every_step(
        |shop, _| {
            block_on(shop.queue.enqueue(task(2)))?;
            block_on(shop.queue.claim(claims("w").max(9))).map(|claimed| claimed.len() == 1)
        },
        |shop| {
            let before = block_on(shop.queue.stats()).unwrap();
            shop.outlive_leases();
            let all = before.in_flight + before.ready;
            assert_eq!(shop.claim(9).len() as u64, all);
            before.in_flight == 2
        },
    );
}

#[test]
fn c01_a_promotion_that_could_not_be_written_keeps_each_task_once() {
    for steps in 0..1_000 {
        let (disk, clock) = (FailingDisk::default(), ManualClock::default());
        let db = disk.open(&clock);
        let ids = block_on(db.queue("q").unwrap().enqueue_batch((0..50).map(|n| task(n).delay(secs(1))).collect()));
        let ids: BTreeSet<_> = ids.unwrap().into_iter().map(|outcome| outcome.id).collect();
        clock.advance(secs(1));
        disk.allow(steps);
        let swept = block_on(db.queue("q").unwrap().sweep(RetentionLimits::default()));
        disk.allow(0);
        drop(db);
        let shop = Shop::on(disk.open(&clock), clock);
        assert_eq!(shop.claim(99).into_iter().map(|claim| claim.id).collect::<BTreeSet<_>>(), ids);
        if swept.is_ok() {
            return;
        }
    }
    panic!("it never succeeded");
}

#[test]
fn c26_a_claim_that_waits_is_told_when_the_disk_has_failed() {
    let (disk, clock) = (FailingDisk::default(), ManualClock::default());
    let db = disk.open(&clock);
    let queue = db.queue("q").unwrap();
    let mut waiting = Box::pin(queue.claim(claims("w").wait(secs(10))));
    assert!(poll_once(&mut waiting).is_pending());
    disk.allow(0);
    assert!(block_on(db.queue("other").unwrap().enqueue(task(1))).is_err());
    clock.advance(secs(10));
    match poll_once(&mut waiting) {
        std::task::Poll::Ready(Err(_)) => {}
        other => panic!("it should be told: {other:?}"),
    }
}

#[test]
fn c10_a_lease_outlives_the_store_and_its_token_stays_right() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
    let open = || {
        let db = Db::builder().clock(clock.clone()).inline().open(folder.path().join("q.aedb")).unwrap();
        Shop::on(db, clock.clone())
    };
    open().enqueue(task(1));
    let claim = open().claim_one();
    clock.advance(secs(29));
    let shop = open();
    assert!(shop.claim(1).is_empty());
    let beat = block_on(shop.queue.heartbeat(&claim, aedb_queue::LeaseLength::secs(60), None)).unwrap();
    assert!(matches!(beat, aedb_queue::HeartbeatOutcome::Extended(_)));
    clock.advance(secs(59));
    assert!(shop.claim(1).is_empty());
    assert!(shop.complete(&claim).is_applied());
    assert_eq!(shop.state(claim.id).kind(), StateKind::Done);
}
