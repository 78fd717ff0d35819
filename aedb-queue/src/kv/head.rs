//! A queue's head record: its counts by state, the bytes of what is finished, and whether it is paused.

use super::codec::{Reader, Writer};
use crate::error::Result;
use crate::model::task::StateKind;
use crate::time::Timestamp;

/// The counts change with every record, in the same commit, so that looking at them costs one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    counts: [u64; 6],
    pub(crate) finished_bytes: u64,
    pub(crate) paused: Option<Timestamp>,
}

fn slot(state: StateKind) -> usize {
    match state {
        StateKind::Scheduled => 0,
        StateKind::Ready => 1,
        StateKind::InFlight => 2,
        StateKind::Done => 3,
        StateKind::Dead => 4,
        StateKind::Cancelled => 5,
    }
}

impl Head {
    pub(crate) fn count(&self, state: StateKind) -> u64 {
        self.counts.get(slot(state)).copied().unwrap_or_default()
    }

    pub(crate) fn finished(&self) -> u64 {
        self.count(StateKind::Done) + self.count(StateKind::Dead) + self.count(StateKind::Cancelled)
    }

    /// Counts a record in. Finished ones count with their bytes.
    pub(crate) fn add(&mut self, state: StateKind, bytes: u64) {
        if let Some(count) = self.counts.get_mut(slot(state)) {
            *count += 1;
        }
        if slot(state) > 2 {
            self.finished_bytes += bytes;
        }
    }

    /// Counts a record out. Saturating: a count that is wrong is for `check` to find, not a reason to stop.
    pub(crate) fn remove(&mut self, state: StateKind, bytes: u64) {
        if let Some(count) = self.counts.get_mut(slot(state)) {
            *count = count.saturating_sub(1);
        }
        if slot(state) > 2 {
            self.finished_bytes = self.finished_bytes.saturating_sub(bytes);
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(32);
        self.counts.into_iter().for_each(|count| w.number(count));
        w.number(self.finished_bytes);
        w.number(self.paused.map_or(0, Timestamp::as_micros));
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes)?;
        let mut head = Self::default();
        for count in &mut head.counts {
            *count = r.number()?;
        }
        head.finished_bytes = r.number()?;
        head.paused = Some(r.instant()?).filter(|at| at.as_micros() > 0);
        Ok(head)
    }
}
