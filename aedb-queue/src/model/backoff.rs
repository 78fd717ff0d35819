//! How long a failed task waits: exponential, capped, with jitter inside the cap (contract rule 9).

use std::time::Duration;

use crate::time::{Timestamp, micros};

/// The waiting time between a failure and the next attempt.
///
/// The n-th failure waits `base * 2^(n-1)`, at most `cap`, less a pseudo-random part of up to `jitter` percent. All of it
/// saturates, an explicit zero means "at once", and the jitter is computed from the task's id, so that it is the same
/// wherever it is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    jitter: u8,
}

impl Backoff {
    /// A wait that doubles from `base` to `cap`, with 20 % jitter.
    pub const fn exponential(base: Duration, cap: Duration) -> Self {
        Self { base, cap, jitter: 20 }
    }

    /// The same wait after every failure, without jitter.
    pub const fn fixed(wait: Duration) -> Self {
        Self { base: wait, cap: wait, jitter: 0 }
    }

    /// No wait at all.
    pub const fn none() -> Self {
        Self::fixed(Duration::ZERO)
    }

    /// Sets how much of the wait is random, in percent; more than 100 counts as 100.
    #[must_use]
    pub const fn jitter(mut self, percent: u8) -> Self {
        self.jitter = if percent > 100 { 100 } else { percent };
        self
    }

    /// The first wait.
    pub const fn base(&self) -> Duration {
        self.base
    }

    /// The longest wait.
    pub const fn cap(&self) -> Duration {
        self.cap
    }

    /// How much of the wait is random, in percent.
    pub const fn jitter_percent(&self) -> u8 {
        self.jitter
    }

    /// How long to wait after the n-th failure (counted from 1) of the task with this seed.
    pub fn wait(&self, failures: u32, seed: u64) -> Duration {
        let (base, cap) = (micros(self.base), micros(self.cap));
        let doublings = failures.saturating_sub(1);
        let full = if base == 0 {
            0
        } else {
            base.checked_shl(doublings).filter(|w| w >> doublings == base).unwrap_or(u64::MAX)
        };
        let full = full.min(cap);
        let random = u128::from(mix(seed ^ (u64::from(failures) << 32)));
        let spread = u128::from(full) * u128::from(self.jitter) / 100;
        // The product is below `spread`, which is at most `full`, so both conversions are exact.
        let less = u64::try_from((spread * random) >> 64).unwrap_or(full);
        Duration::from_micros(full.saturating_sub(less))
    }

    /// When a task that failed for the n-th time at `now` is due again.
    pub fn due(&self, now: Timestamp, failures: u32, seed: u64) -> Timestamp {
        now.saturating_add(self.wait(failures, seed))
    }
}

/// Doubles from one second to one hour, with 20 % jitter.
impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1), Duration::from_secs(3600))
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every output bit depends on every input bit.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [u64; 5] = [0, 1, 1_000_000, u64::MAX - 1, u64::MAX];

    fn attempts() -> impl Iterator<Item = u32> {
        (1..=10_000).chain([u32::MAX - 1, u32::MAX])
    }

    #[test]
    fn c45_c46_no_wait_is_over_the_cap_and_none_wraps() {
        for base in EDGES {
            for cap in EDGES {
                let backoff = Backoff::exponential(Duration::from_micros(base), Duration::from_micros(cap)).jitter(100);
                for n in attempts() {
                    assert!(
                        backoff.wait(n, base ^ u64::from(n)) <= Duration::from_micros(cap),
                        "base {base} cap {cap} n {n}"
                    );
                    assert!(backoff.due(Timestamp::MAX, n, 7) == Timestamp::MAX);
                }
            }
        }
    }

    #[test]
    fn c45_without_jitter_the_wait_grows_to_the_cap_and_stays() {
        let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(3600)).jitter(0);
        let waits: Vec<_> = attempts().map(|n| backoff.wait(n, 0).as_secs()).collect();
        assert_eq!(waits.iter().take(4).copied().collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert!(waits.is_sorted());
        assert_eq!(waits.last(), Some(&3600));
    }

    #[test]
    fn c46_an_overflow_means_the_far_future() {
        let backoff = Backoff::exponential(Duration::MAX, Duration::MAX).jitter(0);
        for n in [1, 2, 64, 65, 1_000, u32::MAX] {
            assert_eq!(backoff.due(Timestamp::from_micros(1), n, 0), Timestamp::MAX);
        }
    }

    #[test]
    fn c47_an_explicit_zero_means_at_once() {
        for n in attempts() {
            assert_eq!(Backoff::none().wait(n, 9), Duration::ZERO);
        }
        assert_ne!(Backoff::default().wait(1, 9), Duration::ZERO);
    }

    #[test]
    fn jitter_spreads_tasks_and_keeps_its_share() {
        let backoff = Backoff::fixed(Duration::from_secs(10)).jitter(50);
        let waits: Vec<_> = (0..1000).map(|seed| backoff.wait(3, seed)).collect();
        assert!(waits.iter().all(|w| (Duration::from_secs(5)..=Duration::from_secs(10)).contains(w)));
        let distinct: std::collections::HashSet<_> = waits.iter().collect();
        assert!(distinct.len() > 990);
    }
}
