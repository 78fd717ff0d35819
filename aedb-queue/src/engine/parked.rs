//! The verbs that wait, by what they wait for: a turn looks only at those that it may have given something to do.

use std::collections::{BTreeMap, BTreeSet};

use super::job::Job;
use crate::time::Timestamp;

/// How many waiting verbs one general look runs again, in rotation. The look is for what other processes did; with more
/// verbs than this it takes several to reach them all, and no commit gets slow.
const LOOKS: usize = 512;
/// From how many waiting verbs on those that nobody waits for any more are looked for.
const TIDY: usize = 64;

/// Waiting verbs, in the order in which they came.
#[derive(Default)]
pub(super) struct Parked {
    waiting: BTreeMap<u64, Waiting>,
    topics: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    wakes: BTreeSet<(Timestamp, u64)>,
    next_place: u64,
    /// Where the next general look goes on.
    looked: u64,
    tidy_at: usize,
    /// Those that the next round runs, or the next turn if its rounds are spent.
    owed: BTreeSet<u64>,
}

struct Waiting {
    job: Box<dyn Job>,
    topic: Vec<u8>,
    wakes: Option<Timestamp>,
}

/// A verb with its place among those that wait, which it keeps if it has to wait again.
pub(super) type Placed = (u64, Box<dyn Job>);

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a turn has left a run to the next one.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The instant at which a verb wants to run by itself.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Lets a verb wait, at the end or at the place that it had.
    pub(super) fn park(&mut self, place: Option<u64>, job: Box<dyn Job>, topic: Vec<u8>, until: Option<Timestamp>) {
        self.tidy();
        let place = place.unwrap_or_else(|| {
            self.next_place += 1;
            self.next_place
        });
        let wakes = [until, job.gives_up()].into_iter().flatten().min();
        self.wakes.extend(wakes.map(|at| (at, place)));
        self.topics.entry(topic.clone()).or_default().insert(place);
        self.waiting.insert(place, Waiting { job, topic, wakes });
    }

    /// Owes a run to those whose topic was touched.
    pub(super) fn owe(&mut self, touched: &BTreeSet<Vec<u8>>) {
        if !self.waiting.is_empty() {
            self.owed.extend(touched.iter().filter_map(|topic| self.topics.get(topic)).flatten());
        }
    }

    /// Owes a run to those whose time has come; with `look`, to others too, as many as one look takes.
    pub(super) fn owe_due(&mut self, now: Timestamp, look: bool) {
        self.owed.extend(self.wakes.range(..=(now, u64::MAX)).map(|(_, place)| *place));
        if look {
            let behind = self.waiting.range(self.looked..).chain(self.waiting.range(..self.looked));
            let looked: Vec<u64> = behind.map(|(place, _)| *place).take(LOOKS).collect();
            self.looked = looked.last().map_or(0, |last| last + 1);
            self.owed.extend(looked);
        }
    }

    /// Takes those that are owed a run, first come, first served.
    pub(super) fn take_owed(&mut self) -> Vec<Placed> {
        let owed = std::mem::take(&mut self.owed);
        let taken = owed.into_iter().filter_map(|place| Some((place, self.remove(place)?)));
        taken.filter(|(_, job)| !job.is_abandoned()).collect()
    }

    /// Takes all.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<dyn Job>> + use<> {
        std::mem::take(self).waiting.into_values().map(|waiting| waiting.job)
    }

    fn remove(&mut self, place: u64) -> Option<Box<dyn Job>> {
        let Waiting { job, topic, wakes } = self.waiting.remove(&place)?;
        if let Some(at) = wakes {
            self.wakes.remove(&(at, place));
        }
        if let Some(places) = self.topics.get_mut(&topic) {
            places.remove(&place);
            if places.is_empty() {
                self.topics.remove(&topic);
            }
        }
        Some(job)
    }

    /// Drops abandoned verbs each time that the number of all has doubled, so that it costs each of them little.
    fn tidy(&mut self) {
        if self.waiting.len() < self.tidy_at.max(TIDY) {
            return;
        }
        let abandoned: Vec<u64> =
            self.waiting.iter().filter(|(_, waiting)| waiting.job.is_abandoned()).map(|(place, _)| *place).collect();
        for place in abandoned {
            self.remove(place);
        }
        self.tidy_at = 2 * self.waiting.len();
    }
}

#[cfg(test)]
mod tests;
