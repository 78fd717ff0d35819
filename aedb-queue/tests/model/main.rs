//! Random histories against a reference that is small enough to be obviously right.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod dice;
mod reference;
#[cfg(feature = "postgres")]
mod server;
#[path = "../../../tests/src/summary.rs"]
mod summary;
mod world;

use std::panic::{RefUnwindSafe, catch_unwind, set_hook, take_hook};
#[cfg(feature = "postgres")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dice::Dice;
use world::{Place, World};

const STEPS: u64 = 50;

/// Some steps of a seed's history, one after the other.
fn history(seed: u64, steps: &[u64], place: Place) {
    let mut world = World::new(place);
    for step in steps {
        world.step(&mut Dice::of(seed, *step));
    }
    world.compare();
    world.drain();
}

/// `AEDB_HISTORIES` runs more of them; `AEDB_SEED`, with `AEDB_STEPS`, only one that failed.
fn histories(usual: u64, place: impl Fn() -> Place + RefUnwindSafe) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let all: Vec<u64> = (0..STEPS).collect();
    if let Some(seed) = number("AEDB_SEED") {
        let chosen = std::env::var("AEDB_STEPS").ok();
        let chosen = chosen.map(|steps| steps.split(',').map(|step| step.parse().unwrap()).collect());
        return history(seed, &chosen.unwrap_or(all), place());
    }
    let count = number("AEDB_HISTORIES").unwrap_or(usual);
    for seed in 0..count {
        let fails = |steps: &[u64]| catch_unwind(|| history(seed, steps, place())).is_err();
        if fails(&all) {
            let steps: Vec<_> = shrink(all, fails).iter().map(u64::to_string).collect();
            let steps = steps.join(",");
            panic!("a history fails; AEDB_SEED={seed} AEDB_STEPS={steps} cargo test -p aedb-queue --test model");
        }
    }
    let place = match place() {
        Place::Memory => "in memory",
        Place::File(_) => "on a file with restarts",
        #[cfg(feature = "postgres")]
        Place::Server(..) => "on PostgreSQL",
    };
    summary::tell(&format!("random histories of {STEPS} steps, {place}"), &format!("{count} agree with the reference"));
}

/// Leaves out whatever a history can fail without: halves of it first, single steps last.
fn shrink(mut steps: Vec<u64>, fails: impl Fn(&[u64]) -> bool) -> Vec<u64> {
    let loud = take_hook();
    set_hook(Box::new(|_| {}));
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + piece).min(fewer.len()));
            if fails(&fewer) {
                steps = fewer;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    set_hook(loud);
    steps
}

#[test]
fn a_history_that_fails_is_shrunk_to_the_steps_that_it_takes() {
    let fails = |steps: &[u64]| steps.contains(&7) && steps.contains(&31) && steps.len() > 1;
    assert_eq!(shrink((0..STEPS).collect(), fails), [7, 31]);
}

#[test]
fn two_thousand_random_histories_agree_with_the_reference() {
    histories(2_000, || Place::Memory);
}

#[test]
fn histories_on_a_file_that_is_closed_and_opened_in_between_agree_too() {
    // In memory where there is such a folder: no power is lost here, and a sync is not what is tested.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().to_owned();
    let files = AtomicU64::new(0);
    histories(2_000, || Place::File(path.join(format!("{}.db", files.fetch_add(1, Ordering::Relaxed)))));
}

#[test]
#[cfg(feature = "postgres")]
fn histories_on_a_server_that_is_left_and_connected_to_in_between_agree_too() {
    let (schema, scopes) = (Arc::new(server::Schema::new()), AtomicU64::new(0));
    histories(150, || Place::Server(Arc::clone(&schema), scopes.fetch_add(1, Ordering::Relaxed).to_string()));
}
