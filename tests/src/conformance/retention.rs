//! Retention: what is finished goes by age, count and bytes, in bounded steps, with everything that belongs to it.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::{Completion, Json, NewTask, QueueStats, RetentionLimits, Retry, StateKind, SweepReport};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c58_each_kind_of_end_is_pruned_at_its_age_and_not_a_second_before,
    c58_waiting_and_running_tasks_are_never_pruned,
    c56_too_many_records_or_bytes_are_cut_back_and_those_that_end_first_go_first,
    c56_cycles_of_work_with_keys_and_sweeps_leave_the_queue_as_small_as_it_was,
    c56_what_is_done_is_cut_back_before_what_was_cancelled_and_that_before_the_dead,
    a_completion_may_choose_how_long_its_record_is_kept,
];

fn sweep(shop: &Shop, limits: RetentionLimits) -> SweepReport {
    block_on(shop.queue.sweep(limits)).unwrap()
}

fn stats(shop: &Shop) -> QueueStats {
    block_on(shop.queue.stats()).unwrap()
}

fn c58_each_kind_of_end_is_pruned_at_its_age_and_not_a_second_before() {
    let long = Json::parse(format!("\"{}\"", "x".repeat(5_000))).unwrap();
    for (how, age) in [(StateKind::Done, 100), (StateKind::Cancelled, 100), (StateKind::Dead, 500)] {
        let shop = Shop::new();
        let new = NewTask::with_json("n", long.clone()).keep_done(secs(100)).keep_dead(secs(500));
        let id = shop.enqueue(new.idempotency_key_for("k", secs(1)));
        match how {
            StateKind::Done => {
                let completion = Completion::new().result(long.clone());
                assert!(block_on(shop.queue.complete(&shop.claim_one(), completion)).unwrap().is_applied());
            }
            StateKind::Cancelled => assert!(block_on(shop.queue.cancel(id)).unwrap()),
            _ => {
                let claim = shop.claim_one();
                assert!(block_on(shop.queue.fail_with(&claim, "no", Retry::Fatal)).unwrap().is_applied());
            }
        }
        assert!(stats(&shop).finished_bytes > 5_000);
        shop.pass(secs(age - 1));
        let report = sweep(&shop, RetentionLimits::default());
        assert_eq!((report.pruned, report.keys_expired), (0, 1), "{how}");
        shop.pass(secs(1));
        assert_eq!(sweep(&shop, RetentionLimits::default()).pruned, 1, "{how}");
        assert_eq!(stats(&shop), QueueStats::default());
        assert!(block_on(shop.queue.get(id)).unwrap().is_none());
    }
}

fn c58_waiting_and_running_tasks_are_never_pruned() {
    let shop = Shop::new();
    shop.enqueue(task(1).delay(secs(10_000_000_000)).keep_done(secs(0)));
    shop.enqueue(task(2).keep_done(secs(0)));
    shop.enqueue(task(3).keep_done(secs(0)));
    let claim = shop.claim_one();
    let none = RetentionLimits { records: 0, bytes: 0, ..Default::default() };
    assert_eq!(sweep(&shop, none).pruned, 0);
    assert!(shop.complete(&claim).is_applied());
    assert_eq!((stats(&shop).scheduled, stats(&shop).ready, stats(&shop).done), (1, 1, 0));
}

fn c56_too_many_records_or_bytes_are_cut_back_and_those_that_end_first_go_first() {
    let shop = Shop::new();
    let mut ids = Vec::new();
    for n in 0..50 {
        ids.push(shop.enqueue(task(n)));
        shop.complete_all();
        shop.pass(secs(1));
    }
    assert_eq!(sweep(&shop, RetentionLimits { records: 20, ..Default::default() }).pruned, 30);
    assert!(block_on(shop.queue.get(ids[29])).unwrap().is_none());
    assert!(block_on(shop.queue.get(ids[30])).unwrap().is_some());
    let half = stats(&shop).finished_bytes / 2;
    sweep(&shop, RetentionLimits { bytes: half, ..Default::default() });
    let kept = stats(&shop);
    assert!(kept.finished_bytes <= half && (9..=10).contains(&kept.done), "{kept:?}");
}

fn c56_cycles_of_work_with_keys_and_sweeps_leave_the_queue_as_small_as_it_was() {
    let shop = Shop::new();
    let mut sizes = Vec::new();
    for round in 0..10 {
        let tasks = (0..200).map(|n| {
            let key = format!("{round}/{n}");
            NewTask::new("n", &"x".repeat(1_000)).unwrap().idempotency_key_for(key, secs(5)).keep_done(secs(5))
        });
        block_on(shop.queue.enqueue_batch(tasks.collect())).unwrap();
        shop.complete_all();
        shop.pass(secs(10));
        while sweep(&shop, RetentionLimits::default()).more {}
        sizes.push(stats(&shop));
    }
    assert_eq!(sizes, [QueueStats::default(); 10]);
}

fn c56_what_is_done_is_cut_back_before_what_was_cancelled_and_that_before_the_dead() {
    let shop = Shop::new();
    for n in 0..30 {
        shop.enqueue(task(n));
    }
    let claims = shop.claim(30);
    for claim in &claims[..10] {
        assert!(block_on(shop.queue.fail_with(claim, "no", Retry::Fatal)).unwrap().is_applied());
    }
    for claim in &claims[10..20] {
        assert!(block_on(shop.queue.cancel(claim.id)).unwrap());
    }
    for claim in &claims[20..] {
        assert!(shop.complete(claim).is_applied());
    }
    let mut kept = Vec::new();
    for records in [25, 15, 5] {
        sweep(&shop, RetentionLimits { records, ..Default::default() });
        let stats = stats(&shop);
        kept.push((stats.done, stats.cancelled, stats.dead));
    }
    assert_eq!(kept, [(5, 10, 10), (0, 5, 10), (0, 0, 5)]);
}

fn a_completion_may_choose_how_long_its_record_is_kept() {
    let shop = Shop::new();
    let [gone, kept] = [1, 2].map(|n| shop.enqueue(task(n)));
    for (claim, keep) in shop.claim(2).iter().zip([0, 7_200]) {
        let completion = Completion::new().keep(secs(keep));
        assert!(block_on(shop.queue.complete(claim, completion)).unwrap().is_applied());
    }
    assert!(block_on(shop.queue.get(gone)).unwrap().is_none());
    shop.pass(secs(7_199));
    assert_eq!(sweep(&shop, RetentionLimits::default()).pruned, 0);
    assert!(block_on(shop.queue.get(kept)).unwrap().is_some());
}
