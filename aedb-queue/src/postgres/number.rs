//! Numbers as PostgreSQL has them: signed, so that the largest stands for all that are larger, and for "never".

use std::time::Duration;

use crate::model::backoff::Backoff;
use crate::model::task::{Policy, UniqueKey};
use crate::store::Due;
use crate::time::{Timestamp, micros};

pub(super) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn from_sql(number: i64) -> u64 {
    if number == i64::MAX { u64::MAX } else { u64::try_from(number).unwrap_or(0) }
}

pub(super) fn small(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

pub(super) fn instant(number: i64) -> Timestamp {
    Timestamp::from_micros(from_sql(number))
}

pub(super) fn length(duration: Duration) -> i64 {
    to_sql(micros(duration))
}

/// A priority as a rank whose signed order is that in which tasks are served.
pub(super) fn rank(priority: u64) -> i64 {
    (!priority ^ (1 << 63)).cast_signed()
}

pub(super) fn priority(rank: i64) -> u64 {
    !(rank.cast_unsigned() ^ (1 << 63))
}

/// A due time as a wait from the server's present and as an instant.
pub(super) fn due(due: Due) -> (Option<i64>, Option<i64>) {
    match due {
        Due::Now => (None, None),
        Due::After(wait) => (Some(length(wait)), None),
        Due::At(at) => (None, Some(to_sql(at.as_micros()))),
    }
}

/// A policy as an array's text; `None` for the default one.
pub(super) fn policy(policy: &Policy, key: Option<&UniqueKey>) -> Option<String> {
    let window = key.map_or(crate::store::UNIQUE_WINDOW, |key| key.window);
    if *policy == Policy::default() && window == crate::store::UNIQUE_WINDOW {
        return None;
    }
    let backoff = backoff(&policy.backoff);
    Some(format!(
        "{{{},{},{},{},{},{},{},{}}}",
        policy.max_attempts,
        policy.max_lost_leases,
        backoff[0],
        backoff[1],
        backoff[2],
        length(policy.keep_done),
        length(policy.keep_dead),
        length(window)
    ))
}

/// Base, cap and jitter.
pub(super) fn backoff(backoff: &Backoff) -> [i64; 3] {
    [length(backoff.base()), length(backoff.cap()), i64::from(backoff.jitter_percent())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c36_ranks_are_in_the_order_of_priorities_over_all_of_them() {
        let edges = [0, 1, 1 << 31, (1 << 63) - 1, 1 << 63, u64::MAX];
        assert!(edges.map(rank).is_sorted_by(|low, high| low > high));
        assert_eq!(edges.map(|p| priority(rank(p))), edges);
    }
}
