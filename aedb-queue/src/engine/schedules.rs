//! The writer thread under a scheduler that tries many orders of callers, answers, waits and the end: `tests/schedules` runs this.
//!
//! A wake-up that is lost is a deadlock, which the scheduler sees.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::{Config, PortfolioRunner, scheduler, thread};

use super::{Engine, Options, Place, Turn, Txn, View as _, open, submit, submit_detached, submit_waiting};
use crate::clock::{Clock, ManualClock};
use crate::error::Result;
use crate::time::Timestamp;

/// Tries a scenario in many orders: at random, and with few changes of thread at the worst moments (PCT).
fn in_many_orders(scenario: impl Fn() + Send + Sync + 'static) {
    let orders = std::env::var("AEDB_ORDERS").ok().and_then(|orders| orders.parse().ok()).unwrap_or(500);
    let mut config = Config::new();
    // The engine below has functions of its own needs.
    config.stack_size = 1 << 20;
    config.failure_persistence = shuttle::FailurePersistence::Print;
    let mut runner = PortfolioRunner::new(true, config);
    runner.add(scheduler::RandomScheduler::new(orders));
    runner.add(scheduler::PctScheduler::new(3, orders));
    runner.run(scenario);
}

fn memory(clock: &ManualClock) -> Arc<dyn Engine> {
    let clock = Arc::new(clock.clone());
    open(Place::Memory, Options { cache_bytes: 1 << 16, clock, inline: false, first_opened: b"first".to_vec() })
        .unwrap()
}

fn number(txn: &Txn<'_>) -> Result<usize> {
    Ok(txn.get(b"n")?.map_or(0, |bytes| bytes.len()))
}

/// Makes the number one greater.
fn grow(txn: &mut Txn<'_>) -> Result<usize> {
    let grown = number(txn)? + 1;
    txn.put(b"n".to_vec(), vec![0; grown]);
    txn.touch(b"n");
    Ok(grown)
}

/// Answers once the number has grown so far.
async fn grown(engine: &dyn Engine, least: usize) -> Result<usize> {
    submit_waiting(
        engine,
        None,
        Timestamp::MAX,
        |_| {},
        move |txn| {
            let number = number(txn)?;
            if number >= least {
                return Ok(Turn::Ready(number));
            }
            Ok(Turn::Wait { topic: b"n".to_vec(), until: None, so_far: number })
        },
    )
    .await
}

#[test]
fn every_call_is_answered_once_and_in_order() {
    in_many_orders(|| {
        let engine = memory(&ManualClock::default());
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let engine = Arc::clone(&engine);
                thread::spawn(move || {
                    let first = block_on(submit(engine.as_ref(), None, grow)).unwrap();
                    (first, block_on(submit(engine.as_ref(), None, grow)).unwrap())
                })
            })
            .collect();
        let mut numbers = Vec::new();
        for caller in callers {
            let (first, second) = caller.join().unwrap();
            assert!(first < second, "a caller's calls are done in its order");
            numbers.extend([first, second]);
        }
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    });
}

#[test]
fn what_was_handed_in_before_the_end_is_done() {
    in_many_orders(|| {
        let (engine, done) = (memory(&ManualClock::default()), Arc::new(AtomicUsize::new(0)));
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let (engine, done) = (Arc::clone(&engine), Arc::clone(&done));
                thread::spawn(move || {
                    submit_detached(engine.as_ref(), None, move |txn| {
                        done.fetch_add(1, Ordering::SeqCst);
                        grow(txn).map(drop)
                    });
                })
            })
            .collect();
        drop(engine);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(done.load(Ordering::SeqCst), 2, "the last to leave waits for the writer");
    });
}

#[test]
fn a_call_that_waits_is_answered_when_what_it_waits_for_comes() {
    in_many_orders(|| {
        let engine = memory(&ManualClock::default());
        let waiting = [1, 2].map(|least| {
            let engine = Arc::clone(&engine);
            thread::spawn(move || block_on(grown(engine.as_ref(), least)).unwrap())
        });
        for _ in 0..2 {
            block_on(submit(engine.as_ref(), None, grow)).unwrap();
        }
        for (least, waiting) in [1, 2].into_iter().zip(waiting) {
            assert!(waiting.join().unwrap() >= least);
        }
    });
}

#[test]
fn a_call_that_nobody_waits_for_any_more_holds_nobody_up() {
    in_many_orders(|| {
        let engine = memory(&ManualClock::default());
        let dropped = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || block_on(async { grown(engine.as_ref(), 1).now_or_never() }).map(Result::unwrap))
        };
        let waiting = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || block_on(grown(engine.as_ref(), 1)).unwrap())
        };
        block_on(submit(engine.as_ref(), None, grow)).unwrap();
        assert_eq!(waiting.join().unwrap(), 1);
        assert!(dropped.join().unwrap().is_none_or(|number| number == 1));
    });
}

#[test]
fn a_clock_that_moves_wakes_what_waits_for_an_instant() {
    in_many_orders(|| {
        let clock = ManualClock::default();
        let engine = memory(&clock);
        let due = clock.now().saturating_add(Duration::from_secs(1));
        let waiting = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                block_on(submit_waiting(
                    engine.as_ref(),
                    None,
                    Timestamp::MAX,
                    |_| {},
                    move |txn| {
                        if txn.now() >= due {
                            return Ok(Turn::Ready(()));
                        }
                        Ok(Turn::Wait { topic: b"t".to_vec(), until: Some(due), so_far: () })
                    },
                ))
            })
        };
        clock.advance(Duration::from_secs(1));
        waiting.join().unwrap().unwrap();
    });
}
