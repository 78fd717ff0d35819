//! Random histories against a reference that is small enough to be obviously right.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod dice;
mod reference;
#[cfg(feature = "postgres")]
mod server;
#[path = "../../../tests/src/summary.rs"]
mod summary;
mod world;

use dice::Dice;
use world::{Place, World};

fn history(seed: u64, place: Place) {
    let (mut dice, mut world) = (Dice(seed), World::new(place));
    for _ in 0..50 {
        world.step(&mut dice);
    }
    world.compare();
    world.drain();
}

/// `AEDB_HISTORIES` runs more of them, `AEDB_SEED` only the one that failed.
fn histories(usual: u64, place: impl Fn(u64) -> Place + std::panic::RefUnwindSafe) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("AEDB_SEED") {
        return history(seed, place(seed));
    }
    let count = number("AEDB_HISTORIES").unwrap_or(usual);
    for seed in 0..count {
        if std::panic::catch_unwind(|| history(seed, place(seed))).is_err() {
            panic!("history {seed} failed; replay it with AEDB_SEED={seed} cargo test -p aedb-queue --test model");
        }
    }
    let place = match place(0) {
        Place::Memory => "in memory",
        Place::File(_) => "on a file with restarts",
        #[cfg(feature = "postgres")]
        Place::Server(_) => "on PostgreSQL",
    };
    summary::tell(&format!("random histories of 50 steps, {place}"), &format!("{count} agree with the reference"));
}

#[test]
fn two_thousand_random_histories_agree_with_the_reference() {
    histories(2_000, |_| Place::Memory);
}

#[test]
fn histories_on_a_file_that_is_closed_and_opened_in_between_agree_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    histories(100, |seed| Place::File(path.join(format!("{seed}.db"))));
}

#[test]
#[cfg(feature = "postgres")]
fn histories_on_a_server_that_is_left_and_connected_to_in_between_agree_too() {
    histories(100, |seed| Place::Server(server::Schema::new(seed)));
}
