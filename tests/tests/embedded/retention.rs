//! Retention of more than one step can take.

use aedb_queue::{Db, ManualClock, QueueStats, RetentionLimits, SweepReport};
use aedb_tests::{Shop, secs, task};
use futures::executor::block_on;

fn sweep(shop: &Shop, limits: RetentionLimits) -> SweepReport {
    block_on(shop.queue.sweep(limits)).unwrap()
}

fn stats(shop: &Shop) -> QueueStats {
    block_on(shop.queue.stats()).unwrap()
}

#[test]
fn c59_pruning_goes_on_in_bounded_steps_over_restarts_until_nothing_is_left() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
    let open = || {
        let db = Db::builder().clock(clock.clone()).inline().exclusive().open(folder.path().join("q.aedb")).unwrap();
        Shop::on(db, clock.clone())
    };
    let shop = open();
    block_on(shop.queue.enqueue_batch((0..3_000).map(|n| task(n).keep_done(secs(1))).collect())).unwrap();
    shop.complete_all();
    drop(shop);
    clock.advance(secs(2));
    let mut left = 3_000;
    while left > 0 {
        let shop = open();
        let report = sweep(&shop, RetentionLimits { steps: 700, ..Default::default() });
        assert_eq!((report.pruned, report.more), (left.min(700), left >= 700));
        left -= report.pruned;
        assert_eq!(stats(&shop).done, left);
    }
}
