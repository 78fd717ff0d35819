//! C16: what may happen to one task, in any order. Each verb is atomic, so an interleaving of its callers is an order of
//! verbs: all of them for a few verbs, ten thousand by seed for many, and what threads make of it.

use aedb_queue::{
    Amendment, Backoff, ClaimedTask, Completion, Due, Effects, HeartbeatOutcome, Json, LeaseLength, RetentionLimits,
    Retry, StateKind, TaskId, TaskRecord, TaskState,
};
use aedb_tests::{Dice, LEASE, Shop, assert_clean, secs, seeds, task};
use futures::executor::block_on;

/// A verb, with the claim under which it is called: the first, the second or the third that was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Claim,
    Complete(usize),
    Fail(usize),
    FailForGood(usize),
    Heartbeat(usize),
    Release(usize),
    Snooze(usize),
    Discard(usize),
    Continue(usize),
    Cancel,
    Retry,
    /// An operator lowers the attempts to one.
    Amend,
    /// The lease runs out, which nobody has noticed yet.
    Expire,
    /// A sweep, which reclaims what ran out.
    Sweep,
}

/// Three workers, an operator and a keeper, in any order.
fn script(dice: &mut Dice) -> Vec<Verb> {
    use Verb::{
        Amend, Cancel, Claim, Complete, Continue, Discard, Expire, Fail, FailForGood, Heartbeat, Release, Retry,
        Snooze, Sweep,
    };
    let mut script = vec![Claim, Claim, Cancel, Amend, Retry, Retry, Expire, Expire, Sweep, Sweep];
    for worker in 0..3 {
        let fails = if dice.roll(2) == 0 { Fail(worker) } else { FailForGood(worker) };
        let rare = [Snooze(worker), Discard(worker), Continue(worker)][dice.below(3)];
        script.extend([Complete(worker), fails, Heartbeat(worker), Release(worker), rare]);
    }
    dice.shuffle(&mut script);
    script
}

struct Race {
    shop: Shop,
    id: TaskId,
    claims: Vec<ClaimedTask>,
    /// Texts that attempts left, continuations, ends, and ended tasks that were made to live again.
    texts: usize,
    continued: u64,
    ends: u32,
    revivals: u32,
}

impl Race {
    fn new() -> Self {
        let shop = Shop::new();
        let id = shop.enqueue(task(1).max_attempts(2).max_lost_leases(2).backoff(Backoff::none()));
        Self { shop, id, claims: Vec::new(), texts: 0, continued: 0, ends: 0, revivals: 0 }
    }

    fn record(&self) -> TaskRecord {
        self.shop.record(self.id)
    }

    /// Calls a verb and holds what changed against what may.
    fn step(&mut self, verb: Verb) {
        let before = self.record();
        match verb {
            Verb::Claim => self.claim(),
            Verb::Amend => {
                let changed = block_on(self.shop.queue.amend(self.id, Amendment::new().max_attempts(1))).unwrap();
                assert_eq!(changed, before.state.finished().is_none());
            }
            Verb::Cancel => drop(block_on(self.shop.queue.cancel(self.id)).unwrap()),
            Verb::Retry => drop(block_on(self.shop.queue.retry(self.id)).unwrap()),
            Verb::Expire => self.shop.outlive_leases(),
            Verb::Sweep => drop(block_on(self.shop.queue.sweep(RetentionLimits::default())).unwrap()),
            Verb::Complete(worker)
            | Verb::Fail(worker)
            | Verb::FailForGood(worker)
            | Verb::Heartbeat(worker)
            | Verb::Release(worker)
            | Verb::Snooze(worker)
            | Verb::Discard(worker)
            | Verb::Continue(worker) => self.under_claim(verb, worker, &before),
        }
        let after = self.record();
        assert_eq!(
            after.token.as_u64(),
            self.claims.len() as u64,
            "a token grows by one with each claim and by nothing else"
        );
        if before.state.kind() == StateKind::Done {
            assert_eq!(after, before, "what is done stays as it is");
        }
        self.ends += u32::from(before.state.finished().is_none() && after.state.finished().is_some());
        self.revivals += u32::from(before.state.finished().is_some() && after.state.finished().is_none());
    }

    /// Nothing is handed out that has failed as often as it may.
    fn claim(&mut self) {
        let claimed = self.shop.claim(1);
        assert!(claimed.iter().all(|claim| claim.counters.failures < claim.max_attempts), "{claimed:?}");
        self.claims.extend(claimed);
    }

    /// What a worker calls applies if and only if its claim holds the task; if it does not, nothing changes.
    fn under_claim(&mut self, verb: Verb, worker: usize, before: &TaskRecord) {
        let Some(claim) = self.claims.get(worker) else { return };
        let queue = &self.shop.queue;
        let applied = match verb {
            Verb::Complete(_) => {
                let effects = Effects::new().put(format!("by/{}", claim.token), "done");
                let completion = Completion::new().effects(effects).follow_up("side", task(1));
                block_on(queue.complete(claim, completion)).unwrap().is_applied()
            }
            Verb::Snooze(_) => block_on(queue.snooze(claim, Due::After(secs(1)))).unwrap().is_applied(),
            Verb::Discard(_) => block_on(queue.discard(claim, "not wanted")).unwrap().is_applied(),
            Verb::Continue(_) => {
                let effects = Effects::new().enqueue("side", task(2));
                block_on(queue.continue_with(claim, Json::null(), effects, Due::Now)).unwrap().is_applied()
            }
            Verb::Fail(_) => block_on(queue.fail(claim, "no")).unwrap().is_applied(),
            Verb::FailForGood(_) => block_on(queue.fail_with(claim, "no", Retry::Fatal)).unwrap().is_applied(),
            Verb::Heartbeat(_) => {
                let beat = block_on(queue.heartbeat(claim, LeaseLength::of(LEASE), None)).unwrap();
                matches!(beat, HeartbeatOutcome::Extended(_))
            }
            _ => block_on(queue.release(claim)).unwrap().is_applied(),
        };
        let holds = matches!(before.state, TaskState::InFlight { .. }) && before.token == claim.token;
        assert_eq!(applied, holds, "{verb:?} of token {} on {before:?}", claim.token);
        if !applied {
            assert_eq!(self.record(), *before);
        }
        let leaves_text = matches!(verb, Verb::Fail(_) | Verb::FailForGood(_) | Verb::Discard(_));
        self.texts += usize::from(applied && leaves_text);
        self.continued += u64::from(applied && matches!(verb, Verb::Continue(_)));
    }

    /// Lets a last worker do what is left, and answers how it ended.
    fn finish(mut self) -> StateKind {
        self.step(Verb::Expire);
        self.step(Verb::Claim);
        if self.record().state.finished().is_none() {
            self.step(Verb::Complete(self.claims.len() - 1));
        }
        let record = self.record();
        assert_eq!(self.ends, self.revivals + 1, "it ends once, and once more for each time it was made to live again");
        let writers: Vec<_> =
            self.claims.iter().filter(|claim| self.shop.key(&format!("by/{}", claim.token)).is_some()).collect();
        let side = self.shop.db.queue("side").unwrap();
        let done = u64::from(record.state.kind() == StateKind::Done);
        let followed = block_on(side.stats()).unwrap().ready;
        assert_eq!((writers.len() as u64, followed), (done, done + self.continued), "one set of effects");
        assert!(writers.iter().all(|claim| claim.token == record.token), "only the last holder completes");
        assert_eq!(record.failures.len(), self.texts);
        assert_clean(&side);
        record.state.kind()
    }
}

#[test]
fn c16_ten_thousand_interleavings_each_end_once_with_one_set_of_effects_and_nothing_under_a_stale_token() {
    let ended = [const { std::sync::atomic::AtomicU32::new(0) }; 6];
    seeds(10_000, |seed| {
        let (mut race, mut dice) = (Race::new(), Dice::new(seed));
        script(&mut dice).into_iter().for_each(|verb| race.step(verb));
        ended[race.finish() as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let ended = ended.map(std::sync::atomic::AtomicU32::into_inner);
    let ends: Vec<_> = StateKind::ALL.into_iter().zip(ended).filter(|(_, count)| *count > 0).collect();
    aedb_tests::tell("orders of everything that may happen to a task", &format!("{ends:?}"));
}
