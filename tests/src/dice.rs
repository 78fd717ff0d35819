//! Random choices that can be repeated.

use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};

/// Random numbers from a seed (xorshift64*, Vigna 2016).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to `sides - 1`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides.max(1)
    }

    /// A number below a bound, to count or to index with.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll(bound as u64)).unwrap()
    }

    /// Puts things into a random order.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = self.roll(last as u64 + 1) as usize;
            things.swap(last, other);
        }
    }
}

/// How many of so many repetitions are run: all in memory, and fewer where each call waits for a disk or a server. The order of verbs
/// matters as much in memory.
pub fn repetitions(count: u64) -> u64 {
    count.div_ceil(crate::stores::current().one_of())
}

/// Runs a scenario with many seeds, [fewer](repetitions) where they are slow. One that fails is named; `AEDB_SEED=<seed>` runs it alone.
pub fn seeds(count: u64, scenario: impl Fn(u64) + RefUnwindSafe) {
    let alone = std::env::var("AEDB_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = alone.map_or(1..repetitions(count) + 1, |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(panic) = catch_unwind(|| scenario(seed)) {
            eprintln!("it failed with AEDB_SEED={seed}");
            resume_unwind(panic);
        }
    }
}
