//! Random histories against a reference that is small enough to be obviously right.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod dice;
mod reference;
#[path = "../../../tests/src/summary.rs"]
mod summary;
mod world;

use std::path::PathBuf;

use dice::Dice;
use world::World;

fn history(seed: u64, file: Option<PathBuf>) {
    let (mut dice, mut world) = (Dice(seed), World::new(file));
    for _ in 0..50 {
        world.step(&mut dice);
    }
    world.compare();
    world.drain();
}

/// `AEDB_HISTORIES` runs more of them, `AEDB_SEED` only the one that failed.
fn histories(usual: u64, file: impl Fn(u64) -> Option<PathBuf> + std::panic::RefUnwindSafe) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("AEDB_SEED") {
        return history(seed, file(seed));
    }
    let count = number("AEDB_HISTORIES").unwrap_or(usual);
    for seed in 0..count {
        if std::panic::catch_unwind(|| history(seed, file(seed))).is_err() {
            panic!("history {seed} failed; replay it with AEDB_SEED={seed} cargo test -p aedb-queue --test model");
        }
    }
    let place = if file(0).is_some() { "on a file with restarts" } else { "in memory" };
    summary::tell(&format!("random histories of 50 steps, {place}"), &format!("{count} agree with the reference"));
}

#[test]
fn two_thousand_random_histories_agree_with_the_reference() {
    histories(2_000, |_| None);
}

#[test]
fn histories_on_a_file_that_is_closed_and_opened_in_between_agree_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    histories(100, |seed| Some(path.join(format!("{seed}.db"))));
}
