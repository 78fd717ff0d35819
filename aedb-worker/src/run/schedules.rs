//! Outcomes and entries under a scheduler that tries many orders of handlers, heartbeats and settles: `tests/schedules` runs this.
//!
//! A wake-up that is lost is a deadlock, which the scheduler sees.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{ClaimedTask, Decision, FencingToken, Json};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::{Config, PortfolioRunner, scheduler, thread};
use tokio::sync::Semaphore;

use super::entry::Begin;
use super::settle::Settles;
use super::{Entry, Running, monotonic};

/// Tries a scenario in many orders: at random, and with few changes of thread at the worst moments (PCT).
fn in_many_orders(scenario: impl Fn() + Send + Sync + 'static) {
    let orders = std::env::var("AEDB_ORDERS").ok().and_then(|orders| orders.parse().ok()).unwrap_or(2_000);
    let mut config = Config::new();
    config.failure_persistence = shuttle::FailurePersistence::Print;
    let mut runner = PortfolioRunner::new(true, config);
    runner.add(scheduler::RandomScheduler::new(orders));
    runner.add(scheduler::PctScheduler::new(3, orders));
    runner.run(scenario);
}

/// An attempt of a task; its token tells it from others.
fn begin(running: &Running, token: u64) -> Arc<Entry> {
    let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let mut task = ClaimedTask::detached("q", "n", Json::null());
    task.token = FencingToken::from_u64(token);
    let (lease, safe) = (Duration::from_secs(30), monotonic::now() + Duration::from_secs(30));
    running.begin(Begin { task, line: 0, lease, safe, checkpoint_every: Duration::ZERO, slot }).0
}

#[test]
fn an_attempt_has_one_outcome_whoever_decides_it() {
    in_many_orders(|| {
        let (running, settles) = (Running::default(), Arc::new(Settles::default()));
        let entry = begin(&running, 1);
        let deciders: Vec<_> = (0..3)
            .map(|who| {
                let (settles, entry) = (Arc::clone(&settles), Arc::clone(&entry));
                thread::spawn(move || match who {
                    // The handler returns, its time is over, and the lease is lost.
                    0 => settles.push(&entry, Decision::Release),
                    1 => settles.push(&entry, Decision::Discard { reason: "late".into() }),
                    _ => entry.lose(),
                })
            })
            .collect();
        let first: usize = deciders.into_iter().map(|decider| usize::from(decider.join().unwrap())).sum();
        assert_eq!((first, entry.is_decided()), (1, true));
        assert_eq!(settles.waiting(), usize::from(!entry.is_lost()), "a lost lease has no outcome, any other has one");
    });
}

#[test]
fn every_outcome_gets_its_answer_though_calls_are_given_up() {
    in_many_orders(|| {
        let (running, settles) = (Arc::new(Running::default()), Arc::new(Settles::default()));
        let entries: Vec<_> = (1..=3).map(|token| begin(&running, token)).collect();
        let handlers: Vec<_> = entries
            .iter()
            .map(|entry| {
                let (settles, entry) = (Arc::clone(&settles), Arc::clone(entry));
                thread::spawn(move || assert!(settles.push(&entry, Decision::Release)))
            })
            .collect();
        let settling = {
            let (running, settles) = (Arc::clone(&running), Arc::clone(&settles));
            thread::spawn(move || {
                let (mut answered, mut given_up) = (BTreeSet::new(), 0);
                while answered.len() < 3 {
                    let batch = block_on(settles.take(2));
                    if given_up < 2 && thread_rng().gen_bool(0.5) {
                        // The store did not answer: all of them go back.
                        given_up += 1;
                        continue;
                    }
                    for entry in batch.answered() {
                        assert!(answered.insert(entry.key()), "answered twice");
                        running.end(&entry);
                    }
                }
            })
        };
        block_on(running.emptied());
        settling.join().unwrap();
        handlers.into_iter().for_each(|handler| handler.join().unwrap());
        assert_eq!(settles.waiting(), 0);
    });
}
