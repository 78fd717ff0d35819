//! What happened, counted: a simulation in which nothing goes wrong proves nothing.

use std::collections::BTreeMap;

/// Everything that must have happened in a run of many seeds.
pub(crate) const MUST_HAPPEN: [&str; 30] = [
    "a batch was enqueued",
    "a call was refused as if the store were away",
    "a call was late",
    "a cancelled task was left alone by its worker",
    "a checkpoint was taken over by the next attempt",
    "a clean restart",
    "a completion was applied",
    "a dead task was retried by hand",
    "a failure was charged",
    "a guarded commit was applied",
    "a guarded commit without its lease was refused",
    "a heartbeat of a lost lease was refused",
    "a lost lease was taken over",
    "a queue was paused",
    "a stopped worker went on after its lease",
    "a task died of its failures",
    "a task died of its lost leases",
    "a task ended as discarded",
    "a task snoozed",
    "a task went on with a new payload",
    "a worker was cut off from the store",
    "a worker was killed",
    "a worker was shut down and another started",
    "a zombie's outcome was refused",
    "an answer was lost",
    "an enqueue was deduplicated",
    "an outcome was asked for twice and applied once",
    "the clock was set back",
    "the clock was set forward",
    "the disk was full",
];

/// The same for what the disk did, which fewer seeds see.
pub(crate) const MUST_HAPPEN_TO_THE_DISK: [&str; 3] =
    ["an unsynced sector got there", "an unsynced sector was lost", "the power was lost"];

/// How often each thing happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// It happened so often.
    pub(crate) fn add(&mut self, what: &'static str, often: u64) {
        *self.0.entry(what).or_default() += often;
    }

    /// Adds another's counts.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, often)| self.add(what, *often));
    }

    /// How often it happened.
    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    /// What should have happened and did not.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let all = MUST_HAPPEN.into_iter().chain(MUST_HAPPEN_TO_THE_DISK);
        all.filter(|what| self.of(what) == 0).collect()
    }
}
