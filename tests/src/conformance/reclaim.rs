//! Reclaim and the broken disk: lost leases come back at once, and a failed commit loses and doubles nothing.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::RetentionLimits;
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    c22_ten_thousand_lost_leases_are_all_reclaimed_by_one_claim,
    c22_a_sweep_reclaims_in_bounded_steps_and_says_when_there_is_more,
];

fn c22_ten_thousand_lost_leases_are_all_reclaimed_by_one_claim() {
    let shop = Shop::new();
    block_on(shop.queue.enqueue_batch((0..10_000).map(task).collect())).unwrap();
    assert_eq!(shop.claim(10_000).len(), 10_000);
    assert_eq!(block_on(shop.queue.stats()).unwrap().next_deadline, Some(shop.now().saturating_add(secs(30))));
    shop.outlive_leases();
    assert_eq!(shop.claim(1).len(), 1);
    let stats = block_on(shop.queue.stats()).unwrap();
    assert_eq!((stats.ready, stats.in_flight), (9_999, 1));
}

fn c22_a_sweep_reclaims_in_bounded_steps_and_says_when_there_is_more() {
    let shop = Shop::new();
    block_on(shop.queue.enqueue_batch((0..1_000).map(task).collect())).unwrap();
    shop.claim(1_000);
    shop.outlive_leases();
    let limits = RetentionLimits { steps: 300, ..Default::default() };
    let mut steps = Vec::new();
    loop {
        let report = block_on(shop.queue.sweep(limits)).unwrap();
        steps.push(report.reclaimed);
        if !report.more {
            break;
        }
    }
    assert_eq!(steps, [300, 300, 300, 100]);
}
