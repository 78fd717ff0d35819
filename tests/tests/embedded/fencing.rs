//! Fencing between threads: of all who want to take a task over exactly one does.

use std::sync::Barrier;
use std::thread;

use aedb_queue::{Db, ManualClock, RetentionLimits};
use aedb_tests::{Shop, claims, task};
use futures::executor::block_on;

#[test]
fn c13_of_many_claims_and_sweeps_at_once_one_takes_a_lost_task_over() {
    for _ in 0..20 {
        let clock = ManualClock::default();
        let shop = Shop::on(Db::builder().clock(clock.clone()).memory().unwrap(), clock);
        let id = shop.enqueue(task(1));
        let first = shop.claim_one();
        shop.outlive_leases();
        let start = Barrier::new(8);
        let taken: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    let (queue, start) = (&shop.queue, &start);
                    scope.spawn(move || {
                        start.wait();
                        if n % 2 == 0 {
                            block_on(queue.sweep(RetentionLimits::default())).unwrap();
                            return 0;
                        }
                        block_on(queue.claim(claims(&format!("w{n}")))).unwrap().len()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let record = shop.record(id);
        assert_eq!((taken, record.counters.lost_leases, record.counters.deliveries), (1, 1, 2));
        assert_eq!(record.token.as_u64(), first.token.as_u64() + 1);
    }
}
