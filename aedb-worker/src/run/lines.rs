//! The worker's queues, and which of them is asked first.

use std::time::Duration;

use aedb_queue::Queue;

/// A queue of a worker.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) queue: Queue,
    /// Its share of claims while all queues have work; at least 1.
    pub(crate) weight: u32,
}

/// The order in which queues are asked: strict, or by how much each was served for its weight.
#[derive(Debug)]
pub(crate) struct Turns {
    strict: bool,
    weights: Vec<u32>,
    /// How much each queue was served, over its weight: the least served is first (stride scheduling).
    served: Vec<f64>,
}

impl Turns {
    pub(crate) fn new(lines: &[Line], strict: bool) -> Self {
        Self { strict, weights: lines.iter().map(|line| line.weight).collect(), served: vec![0.0; lines.len()] }
    }

    /// The queues by number, the first to be asked first.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.served.len()).collect();
        if !self.strict {
            let served = |line: &usize| self.served.get(*line).copied().unwrap_or(0.0);
            order.sort_by(|a, b| served(a).total_cmp(&served(b)));
        }
        order
    }

    /// A queue gave so many tasks.
    pub(crate) fn serve(&mut self, line: usize, tasks: usize) {
        let weight = self.weights.get(line).copied().unwrap_or(1);
        let share = f64::from(u32::try_from(tasks).unwrap_or(u32::MAX)) / f64::from(weight);
        // A queue that had nothing for a while gets no credit for it.
        let least = self.served.iter().copied().fold(f64::INFINITY, f64::min);
        if let Some(served) = self.served.get_mut(line) {
            *served += share;
        }
        if least > 1e9 {
            self.served.iter_mut().for_each(|served| *served -= least);
        }
    }

    /// A queue had nothing to give: it does not save up its share.
    pub(crate) fn idle(&mut self, line: usize) {
        let most = self.served.iter().copied().fold(0.0, f64::max);
        if let Some(served) = self.served.get_mut(line) {
            *served = most;
        }
    }

    /// How many tasks one claim may take, so that a queue with much work leaves room for the others' share.
    pub(crate) fn share(&self, line: usize, free: usize) -> usize {
        if self.strict {
            return free;
        }
        let all: u64 = self.weights.iter().map(|weight| u64::from(*weight)).sum();
        let own = u64::from(self.weights.get(line).copied().unwrap_or(1));
        let share = (free as u64).saturating_mul(own).div_ceil(all.max(1));
        usize::try_from(share).unwrap_or(free).clamp(1, free.max(1))
    }
}

/// How long a claim that waits on one of several queues waits when there are fewer free slots than queues.
pub(crate) const CROWDED: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(weights: &[u32]) -> Turns {
        Turns { strict: false, weights: weights.to_vec(), served: vec![0.0; weights.len()] }
    }

    #[test]
    fn queues_with_work_are_served_by_their_weights() {
        let (mut turns, mut served) = (turns(&[3, 1]), [0_u32; 2]);
        for _ in 0..400 {
            let first = turns.order()[0];
            served[first] += 1;
            turns.serve(first, 1);
        }
        assert_eq!(served, [300, 100]);
    }

    #[test]
    fn a_queue_that_was_idle_has_not_saved_up() {
        let mut turns = turns(&[1, 1]);
        for _ in 0..1_000 {
            turns.idle(1);
            turns.serve(0, 1);
        }
        let mut second = 0;
        for _ in 0..10 {
            let first = turns.order()[0];
            second += u32::from(first == 1);
            turns.serve(first, 1);
        }
        assert!((5..=6).contains(&second));
    }

    #[test]
    fn a_strict_order_is_that_of_the_builder() {
        let mut turns = Turns { strict: true, ..turns(&[1, 5, 1]) };
        turns.serve(0, 1_000);
        assert_eq!(turns.order(), [0, 1, 2]);
        assert_eq!(turns.share(0, 7), 7);
    }
}
