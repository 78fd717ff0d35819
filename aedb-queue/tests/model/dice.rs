//! Random choices that can be repeated.

/// SplitMix64: a history is a function of its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Those of one step: they fall the same, whatever other steps there are.
    pub(crate) fn of(seed: u64, step: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(1_000).wrapping_add(step));
        Self(dice.roll(u64::MAX))
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}
