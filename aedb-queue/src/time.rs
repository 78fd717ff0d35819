//! Instants with a unit: microseconds since the Unix epoch.

use std::fmt;
use std::time::Duration;

/// An instant on the database's clock, in microseconds since the Unix epoch.
///
/// All arithmetic saturates: a delay that is too long means "far future", never "now".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last instant there is. A task that is due then is never due.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant this many microseconds after the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This instant plus a duration, or [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// How long ago `earlier` was, or zero if it was not.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in whole microseconds, saturating.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// RFC 3339 in UTC with microseconds; the civil date is Howard Hinnant's `civil_from_days`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let (days, time) = (secs / 86_400 + 719_468, secs % 86_400);
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_print_as_rfc_3339() {
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::from_micros(951_782_400_000_001).to_string(), "2000-02-29T00:00:00.000001Z");
        assert_eq!(Timestamp::from_micros(1_796_108_696_000_000).to_string(), "2026-12-01T07:04:56.000000Z");
    }

    #[test]
    fn arithmetic_saturates_to_the_far_future_and_to_zero() {
        let now = Timestamp::from_micros(5);
        assert_eq!(now.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(now.saturating_since(Timestamp::MAX), Duration::ZERO);
    }
}
