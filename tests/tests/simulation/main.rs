//! The real queue, the real worker and the real redb, in one thread, on a simulated disk and clock, with everything drawn by a seed.
//!
//! Workers, producers, an operator and two keepers of a lease live on one machine. Their calls fail, come late or lose their answer;
//! workers are stopped past their leases, killed and replaced; the clock is set forward and back; the disk fills up, and the power
//! fails in the middle of a write, with any part of what was not synced lost. Each answer of the store is held against the contract
//! ([`truth`]), and in the end everything must drain. A seed is a replay: the same seed gives the same run, to the last byte.
//!
//! `AEDB_SEEDS=100000 cargo test -p aedb-tests --test simulation` runs more seeds, `AEDB_SEED=7` one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod oracle;
mod people;
mod process;
mod tally;
mod time;
mod truth;
mod work;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tally::Tally;
use tokio::runtime::Builder;
use world::{Report, simulate};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

fn run(seed: u64) -> Report {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(simulate(seed))
}

/// Runs a seed, and shows how to do so again if a rule was broken.
fn must_hold(seed: u64) -> Report {
    let report = run(seed);
    if let Some(broken) = &report.broken {
        panic!("{broken}\nto see it again: AEDB_SEED={seed} cargo test -p aedb-tests --test simulation");
    }
    report
}

/// The planned panics of handlers are noise.
fn hush() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().downcast_ref::<&str>().is_some_and(|words| words.contains("planned")) {
            loud(panic);
        }
    }));
}

#[test]
fn whatever_happens_the_contract_holds_and_everything_drains() {
    hush();
    if let Some(seed) = number("AEDB_SEED") {
        let report = must_hold(seed);
        println!("seed {seed}: {:?} of simulated time, {:#?}", report.passed, report.tally);
        return;
    }
    let (seeds, next) = (number("AEDB_SEEDS").unwrap_or(2_000), AtomicU64::new(1));
    let all = Mutex::new((Tally::default(), Duration::ZERO));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..thread::available_parallelism().map_or(2, usize::from))
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed > seeds {
                            return;
                        }
                        let report = must_hold(seed);
                        let mut all = all.lock().unwrap();
                        all.0.merge(&report.tally);
                        all.1 += report.passed;
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let (tally, passed) = all.into_inner().unwrap();
    let count = |what| tally.of(what);
    let much = format!(
        "{seeds} seeds, {:.1} hours of simulated time, {} losses of power, {} kills, {} zombies refused",
        passed.as_secs_f64() / 3_600.0,
        count("the power was lost"),
        count("a worker was killed"),
        count("a zombie's outcome was refused"),
    );
    aedb_tests::tell("the whole system in one thread, simulated", &much);
    assert!(seeds < 500 || tally.missing().is_empty(), "what never happened: {:?}\n{tally:#?}", tally.missing());
}

#[test]
fn a_seed_is_a_replay() {
    hush();
    for seed in 1..=20 {
        let (one, other) = (must_hold(seed), must_hold(seed));
        assert_eq!((one.fingerprint, one.passed), (other.fingerprint, other.passed), "seed {seed}");
    }
}
