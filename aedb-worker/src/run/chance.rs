//! Chance: jitter, so that workers do not act in step. In a simulation its dice decide.

use std::ops::RangeInclusive;

/// A random number of a range.
pub(crate) fn between(range: RangeInclusive<f64>) -> f64 {
    #[cfg(feature = "simulation")]
    if let Some(number) = super::simulated::between(range.clone()) {
        return number;
    }
    rand::random_range(range)
}
