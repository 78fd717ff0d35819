//! Random histories against a reference that is as plain as possible: a map from ids to what a task should be.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use aedb_queue::{
    Amendment, Backoff, ClaimedTask, Completion, Due, Effects, FencedCommit, Json, LeaseLength, RetentionLimits,
    StateKind, TaskId,
};
use aedb_tests::{Dice, LEASE, Shop, secs, seeds, task};
use futures::executor::block_on;

const BACKOFF: u64 = 7;

/// What a task should be. `at` is when it is due, or when its lease runs out.
#[derive(Debug, Clone, PartialEq)]
struct Expected {
    state: StateKind,
    at: u64,
    priority: u64,
    token: u64,
    failures: u32,
    lost: u32,
    max_attempts: u32,
    max_lost: u32,
    key: Option<u64>,
}

fn is_live(state: StateKind) -> bool {
    matches!(state, StateKind::Scheduled | StateKind::Ready | StateKind::InFlight)
}

/// The queue, what it should hold, and every claim that was ever handed out.
struct History {
    shop: Shop,
    tasks: BTreeMap<TaskId, Expected>,
    claims: Vec<ClaimedTask>,
    applied: u64,
    now: u64,
}

impl History {
    fn new() -> Self {
        Self { shop: Shop::new(), tasks: BTreeMap::new(), claims: Vec::new(), applied: 0, now: 0 }
    }

    fn step(&mut self, dice: &mut Dice) {
        match dice.roll(14) {
            0..=2 => self.enqueue(dice),
            3..=4 => self.claim(1 + dice.roll(3) as usize),
            5..=7 => self.settle(dice),
            8 => self.heartbeat(dice),
            9 => self.by_hand(dice),
            10..=11 => self.amend(dice),
            12 => self.pass(1 + dice.roll(20)),
            _ => {
                self.move_due();
                block_on(self.shop.queue.sweep(RetentionLimits::default())).unwrap();
            }
        }
    }

    fn pass(&mut self, by: u64) {
        self.now += by;
        self.shop.pass(secs(by));
    }

    fn enqueue(&mut self, dice: &mut Dice) {
        let (delay, priority, key) = (dice.roll(3) * 5, dice.roll(4), dice.roll(8));
        let (max_attempts, max_lost) = (1 + dice.roll(3) as u32, 1 + dice.roll(3) as u32);
        let key = (key < 5).then_some(key);
        let mut new = task(1).delay(secs(delay)).priority(priority).backoff(Backoff::fixed(secs(BACKOFF)));
        new = new.max_attempts(max_attempts).max_lost_leases(max_lost);
        if let Some(key) = key {
            new = new.idempotency_key(key.to_string());
        }
        let outcome = block_on(self.shop.queue.enqueue(new)).unwrap();
        // The window of a day is longer than any history, so a key belongs to its first task for good.
        let holder = self.tasks.iter().find(|(_, task)| key.is_some() && task.key == key).map(|(id, _)| *id);
        assert_eq!(outcome.deduplicated.then_some(outcome.id), holder);
        if holder.is_none() {
            let state = if delay == 0 { StateKind::Ready } else { StateKind::Scheduled };
            let at = self.now + delay;
            let expected =
                Expected { state, at, priority, token: 0, failures: 0, lost: 0, max_attempts, max_lost, key };
            self.tasks.insert(outcome.id, expected);
        }
    }

    /// What a claim or a sweep moves before it does anything else.
    fn move_due(&mut self) {
        for task in self.tasks.values_mut().filter(|task| task.at <= self.now) {
            match task.state {
                StateKind::Scheduled => task.state = StateKind::Ready,
                StateKind::InFlight => {
                    task.lost += 1;
                    task.state = if task.lost >= task.max_lost { StateKind::Dead } else { StateKind::Ready };
                }
                _ => {}
            }
        }
    }

    fn claim(&mut self, max: usize) {
        self.move_due();
        let mut ready: Vec<_> = self.tasks.iter_mut().filter(|(_, task)| task.state == StateKind::Ready).collect();
        ready.sort_by_key(|(id, task)| (std::cmp::Reverse(task.priority), **id));
        let mut expected = Vec::new();
        for (id, task) in ready {
            match task.failures < task.max_attempts {
                _ if expected.len() == max => break,
                true => expected.push(*id),
                // Amended while in flight and given back: a claim that meets it takes it out of the way.
                false => task.state = StateKind::Dead,
            }
        }
        let claimed = self.shop.claim(max);
        assert_eq!(claimed.iter().map(|claim| claim.id).collect::<Vec<_>>(), expected);
        for claim in claimed {
            let task = self.tasks.get_mut(&claim.id).unwrap();
            (task.state, task.at, task.token) = (StateKind::InFlight, self.now + LEASE.as_secs(), task.token + 1);
            assert_eq!(claim.token.as_u64(), task.token);
            self.claims.push(claim);
        }
    }

    /// Any claim ever handed out, the right one or not, with the task if it still holds it.
    fn any_claim(&mut self, dice: &mut Dice) -> Option<(ClaimedTask, Option<&mut Expected>)> {
        let claim = self.claims.get(dice.roll(self.claims.len() as u64) as usize)?.clone();
        let task = self.tasks.get_mut(&claim.id)?;
        let holds = task.state == StateKind::InFlight && task.token == claim.token.as_u64();
        Some((claim, holds.then_some(task)))
    }

    fn settle(&mut self, dice: &mut Dice) {
        let (now, applied, how) = (self.now, self.applied, dice.roll(6));
        let queue = self.shop.queue.clone();
        let Some((claim, task)) = self.any_claim(dice) else { return };
        let answer = match how {
            0 => {
                let effects = Effects::new().put(format!("applied/{}", applied + 1), claim.id.to_string());
                block_on(queue.complete(&claim, Completion::new().effects(effects)))
            }
            1 => block_on(queue.fail(&claim, "no")),
            2 => block_on(queue.snooze(&claim, Due::After(secs(3)))),
            3 => block_on(queue.release(&claim)),
            4 => block_on(queue.discard(&claim, "no longer wanted")),
            _ => block_on(queue.continue_with(&claim, Json::null(), Effects::new(), Due::Now)),
        };
        assert_eq!(answer.unwrap() == FencedCommit::Applied, task.is_some());
        let Some(task) = task else { return };
        match how {
            0 => task.state = StateKind::Done,
            1 => {
                task.failures += 1;
                (task.state, task.at) = (StateKind::Scheduled, now + BACKOFF);
                if task.failures >= task.max_attempts {
                    task.state = StateKind::Dead;
                }
            }
            2 => (task.state, task.at) = (StateKind::Scheduled, now + 3),
            3 => task.state = StateKind::Ready,
            4 => task.state = StateKind::Cancelled,
            _ => (task.state, task.failures, task.lost) = (StateKind::Ready, 0, 0),
        }
        self.applied += u64::from(how == 0);
    }

    fn heartbeat(&mut self, dice: &mut Dice) {
        let (now, length) = (self.now, 1 + dice.roll(60));
        let queue = self.shop.queue.clone();
        let Some((claim, task)) = self.any_claim(dice) else { return };
        let answer = block_on(queue.heartbeat(&claim, LeaseLength::secs(length), None)).unwrap();
        assert_eq!(matches!(answer, aedb_queue::HeartbeatOutcome::Extended(_)), task.is_some());
        if let Some(task) = task {
            task.at = task.at.max(now + length);
        }
    }

    fn by_hand(&mut self, dice: &mut Dice) {
        let Some(id) = self.tasks.keys().nth(dice.roll(self.tasks.len() as u64) as usize).copied() else { return };
        let task = self.tasks.get_mut(&id).unwrap();
        let live = is_live(task.state);
        match dice.roll(3) {
            0 => {
                assert_eq!(block_on(self.shop.queue.cancel(id)).unwrap(), live);
                if live {
                    task.state = StateKind::Cancelled;
                }
            }
            1 => {
                let retried = matches!(task.state, StateKind::Dead | StateKind::Cancelled | StateKind::Scheduled);
                assert_eq!(block_on(self.shop.queue.retry(id)).unwrap(), retried);
                if retried {
                    (task.state, task.failures, task.lost) = (StateKind::Ready, 0, 0);
                }
            }
            _ => {
                let idle = task.state != StateKind::InFlight;
                assert_eq!(block_on(self.shop.queue.delete(id)).unwrap(), idle);
                if idle {
                    self.tasks.remove(&id);
                }
            }
        }
    }

    /// Of the live task that has failed most: it is the one that an amendment can kill.
    fn amend(&mut self, dice: &mut Dice) {
        let live = self.tasks.iter_mut().filter(|(_, task)| is_live(task.state));
        let Some((id, task)) = live.max_by_key(|(_, task)| task.failures) else { return };
        (task.priority, task.max_attempts) = (dice.roll(4), 1 + dice.roll(3) as u32);
        let amendment = Amendment::new().priority(task.priority).max_attempts(task.max_attempts);
        assert!(block_on(self.shop.queue.amend(*id, amendment)).unwrap());
        if task.state != StateKind::InFlight && task.failures >= task.max_attempts {
            task.state = StateKind::Dead;
        }
    }

    /// The whole queue, against the reference.
    fn compare(&self) {
        let page = block_on(self.shop.queue.list(aedb_queue::Filter::all())).unwrap();
        let found: Vec<_> = page
            .tasks
            .iter()
            .map(|t| (t.id, t.state.kind(), t.token.as_u64(), t.counters.failures, t.counters.lost_leases))
            .collect();
        let expected: Vec<_> = self.tasks.iter().map(|(id, t)| (*id, t.state, t.token, t.failures, t.lost)).collect();
        assert_eq!(found, expected);
        assert!(self.shop.key(&format!("applied/{}", self.applied + 1)).is_none());
        assert!(self.applied == 0 || self.shop.key(&format!("applied/{}", self.applied)).is_some());
    }

    /// Nothing is stuck: with workers that work, every task ends.
    fn drain(&mut self) {
        self.pass(3600);
        self.move_due();
        let spent = |task: &&mut Expected| task.state == StateKind::Ready && task.failures >= task.max_attempts;
        self.tasks.values_mut().filter(spent).for_each(|task| task.state = StateKind::Dead);
        loop {
            let claimed = self.shop.claim(100);
            if claimed.is_empty() {
                break;
            }
            claimed.iter().for_each(|claim| assert!(self.shop.complete(claim).is_applied()));
        }
        let stats = block_on(self.shop.queue.stats()).unwrap();
        assert_eq!((stats.scheduled, stats.ready, stats.in_flight), (0, 0, 0));
        let ended = |state| self.tasks.values().filter(|task| task.state == state).count() as u64;
        assert_eq!((stats.dead, stats.cancelled), (ended(StateKind::Dead), ended(StateKind::Cancelled)));
        assert_eq!(stats.done + stats.dead + stats.cancelled, self.tasks.len() as u64);
    }
}

#[test]
fn four_hundred_random_histories_agree_with_the_reference_and_drain() {
    seeds(400, |seed| {
        let (mut history, mut dice) = (History::new(), Dice::new(seed));
        for step in 0..50 {
            history.step(&mut dice);
            if step % 10 == 9 {
                history.compare();
            }
        }
        history.drain();
    });
}
