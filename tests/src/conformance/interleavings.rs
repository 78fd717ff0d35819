//! C16: what may happen to one task, in any order. Each verb is atomic, so an interleaving of its callers is an order of
//! verbs: all of them for a few verbs, ten thousand by seed for many, and what threads make of it.

use std::sync::Barrier;
use std::thread;

use crate::conformance::{Rule, rules};
use crate::{Shop, assert_clean, is_served, seeds, task};
use aedb_queue::{ClaimedTask, Completion, Db, Effects, ManualClock, RetentionLimits, Retry, StateKind};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c16_in_every_order_of_events_a_task_ends_once_with_one_set_of_effects,
    c16_threads_that_race_to_end_one_task_leave_one_ending,
];

/// What may happen to a task that is in flight.
const ACTS: [&str; 6] = ["complete", "fatal", "cancel", "reclaim", "release", "expire"];

fn act(shop: &Shop, act: &str, claim: &ClaimedTask) -> u32 {
    let (queue, id) = (&shop.queue, claim.id);
    let done = match act {
        "complete" => {
            let effects = Effects::new().put(format!("complete/{id}"), "done").enqueue("side", task(1));
            block_on(queue.complete(claim, Completion::new().effects(effects))).unwrap().is_applied()
        }
        "fatal" => block_on(queue.fail_with(claim, "no", Retry::Fatal)).unwrap().is_applied(),
        "cancel" => block_on(queue.cancel(id)).unwrap(),
        "release" => {
            let _ = block_on(queue.release(claim)).unwrap();
            false
        }
        "reclaim" => {
            block_on(queue.sweep(RetentionLimits::default())).unwrap();
            false
        }
        _ => {
            shop.outlive_leases();
            false
        }
    };
    u32::from(done)
}

/// Calls `visit` with every order of the things from `from` on.
fn orders(things: &mut [&'static str], from: usize, visit: &mut impl FnMut(&[&'static str])) {
    if from == things.len() {
        return visit(things);
    }
    for other in from..things.len() {
        things.swap(from, other);
        orders(things, from + 1, visit);
        things.swap(from, other);
    }
}

fn c16_in_every_order_of_events_a_task_ends_once_with_one_set_of_effects() {
    let shop = Shop::new();
    let side = shop.db.queue("side").unwrap();
    let (mut seen, mut completions) = (0, 0);
    orders(&mut ACTS.clone(), 0, &mut |acts| {
        shop.enqueue(task(1));
        let claim = shop.claim_one();
        let ended: u32 = acts.iter().map(|name| act(&shop, name, &claim)).sum();
        assert_eq!(ended, 1, "{acts:?}");
        let state = shop.state(claim.id).kind();
        assert!(matches!(state, StateKind::Done | StateKind::Dead | StateKind::Cancelled), "{state} after {acts:?}");
        let written = shop.key(&format!("complete/{}", claim.id)).is_some();
        assert_eq!(written, state == StateKind::Done, "{acts:?}");
        (seen, completions) = (seen + 1, completions + u64::from(written));
    });
    assert_eq!((seen, block_on(side.stats()).unwrap().ready), (720, completions));
    assert!(completions > 100 && completions < 620, "{completions}");
    assert_clean(&side);
}

fn c16_threads_that_race_to_end_one_task_leave_one_ending() {
    // On a server the verbs truly run at the same time; an embedded store needs its thread for that.
    seeds(if is_served() { 3_000 } else { 60 }, |seed| {
        let clock = ManualClock::default();
        let shop = if is_served() {
            Shop::new()
        } else {
            Shop::on(Db::builder().clock(clock.clone()).memory().unwrap(), clock)
        };
        shop.enqueue(task(seed));
        let claim = shop.claim_one();
        shop.outlive_leases();
        let start = Barrier::new(4);
        let ended: u32 = thread::scope(|scope| {
            let threads = ["complete", "fatal", "cancel", "reclaim"].map(|name| {
                let (shop, claim, start) = (&shop, &claim, &start);
                scope.spawn(move || {
                    start.wait();
                    act(shop, name, claim)
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(ended, 1);
        let done = shop.state(claim.id).kind() == StateKind::Done;
        assert_eq!(shop.key(&format!("complete/{}", claim.id)).is_some(), done);
    });
}
