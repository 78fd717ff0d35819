//! Idempotency keys between threads and between handles of one file.

use std::sync::Barrier;
use std::thread;

use aedb_queue::{Db, Effects, ManualClock};
use aedb_tests::{Shop, task};
use futures::executor::block_on;

#[test]
fn c17_a_hundred_threads_with_one_key_get_one_task_and_no_error() {
    let queue = Db::memory().unwrap().queue("q").unwrap();
    let start = Barrier::new(100);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..100)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    block_on(queue.enqueue(task(1).idempotency_key("k"))).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| !outcome.deduplicated).count(), 1);
    assert!(outcomes.iter().all(|outcome| outcome.id == outcomes[0].id && !outcome.differs));
}

#[test]
fn c17_two_handles_of_one_file_with_one_key_make_one_task() {
    let folder = tempfile::tempdir().unwrap();
    let handles = [(); 2].map(|()| Db::open(folder.path().join("q.aedb")).unwrap().queue("q").unwrap());
    let start = Barrier::new(20);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|n| {
                let (queue, start) = (&handles[n % 2], &start);
                scope.spawn(move || {
                    start.wait();
                    block_on(queue.enqueue(task(1).idempotency_key("k"))).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| !outcome.deduplicated).count(), 1);
    assert!(outcomes.iter().all(|outcome| outcome.id == outcomes[0].id));
}

#[test]
fn c49_fifty_enqueues_of_one_key_at_once_with_effects_raise_no_conflict() {
    let clock = ManualClock::default();
    let shop = Shop::on(Db::builder().clock(clock.clone()).memory().unwrap(), clock);
    thread::scope(|scope| {
        for n in 0..50 {
            let queue = &shop.queue;
            scope.spawn(move || {
                let effects = Effects::new().put("last", format!("{n}"));
                block_on(queue.enqueue_with(task(1).idempotency_key("k"), effects)).unwrap();
            });
        }
    });
    assert_eq!(shop.claim(99).len(), 1);
}
