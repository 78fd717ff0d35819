//! Delivery over a file that is closed at the wrong moment.

use std::collections::BTreeSet;

use aedb_queue::{Db, ManualClock, RetentionLimits};
use aedb_tests::{Shop, secs, task};
use futures::executor::block_on;

#[test]
fn c01_a_file_that_is_closed_between_the_steps_of_promotion_keeps_each_task_once() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
    let open = || {
        let db = Db::builder().clock(clock.clone()).inline().exclusive().open(folder.path().join("q.aedb")).unwrap();
        Shop::on(db, clock.clone())
    };
    block_on(open().queue.enqueue_batch((0..2_000).map(|n| task(n).delay(secs(1))).collect())).unwrap();
    clock.advance(secs(1));
    for done in 1..=4 {
        let shop = open();
        block_on(shop.queue.sweep(RetentionLimits { steps: 400, ..Default::default() })).unwrap();
        let stats = block_on(shop.queue.stats()).unwrap();
        assert_eq!((stats.ready, stats.scheduled), (400 * done, 2_000 - 400 * done));
    }
    let claimed = open().claim(10_000);
    assert_eq!(claimed.iter().map(|claim| claim.id).collect::<BTreeSet<_>>().len(), 2_000);
}
