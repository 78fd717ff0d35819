//! Pauses between tries: growing, capped, and never in step with other workers.

use std::time::Duration;

use super::chance;

/// The first pause.
const LEAST: Duration = Duration::from_millis(50);
/// The longest.
const MOST: Duration = Duration::from_secs(5);

/// A row of failures, and the pause before the next try.
#[derive(Debug)]
pub(crate) struct Pause {
    next: Duration,
    row: u32,
}

impl Pause {
    pub(crate) fn new() -> Self {
        Self { next: LEAST, row: 0 }
    }

    /// One more failure; answers how many there are in a row.
    pub(crate) fn failed(&mut self) -> u32 {
        self.row = self.row.saturating_add(1);
        self.row
    }

    /// Between half of the pause and all of it; the one after is twice as long, up to 5 s.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(chance::between(0.5..=1.0));
        self.next = (self.next * 2).min(MOST);
        pause
    }

    /// Things work again.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_cap_and_start_again_after_success() {
        let mut pause = Pause::new();
        for _ in 0..100 {
            assert!((LEAST / 2..=MOST).contains(&pause.next()));
        }
        assert!(pause.next() >= MOST / 2);
        pause.reset();
        assert!(pause.next() <= LEAST);
    }
}
