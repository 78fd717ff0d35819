//! C06: what was acknowledged is there after the power was lost, at whatever moment and whatever the disk did with what was not
//! synced; and what was not acknowledged is there as a whole or not at all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use aedb_queue::{
    ClaimedTask, Completion, Db, Effects, Filter, KeyRange, ManualClock, Queue, Result, StateKind, TaskId, TaskRecord,
};
use aedb_tests::{Dice, LosingDisk, assert_clean, seeds, task};
use futures::executor::block_on;

/// What a task was said to be: its state, and the token of its last claim.
type Known = BTreeMap<TaskId, (StateKind, u64)>;

struct Machine {
    disk: LosingDisk,
    clock: ManualClock,
    db: Db,
    queue: Queue,
    known: Known,
    claims: Vec<ClaimedTask>,
    enqueued: u64,
}

fn seen(record: &TaskRecord) -> (StateKind, u64) {
    (record.state.kind(), record.token.as_u64())
}

fn all(queue: &Queue) -> Vec<TaskRecord> {
    block_on(queue.list(Filter::all())).unwrap().tasks
}

impl Machine {
    fn new() -> Self {
        let (disk, clock) = (LosingDisk::default(), ManualClock::default());
        let db = disk.open(&clock);
        let queue = db.queue("q").unwrap();
        Self { disk, clock, db, queue, known: Known::new(), claims: Vec::new(), enqueued: 0 }
    }

    /// One verb, and what it was answered is written down.
    fn step(&mut self, dice: &mut Dice) -> Result<()> {
        match dice.roll(3) {
            0 => {
                self.enqueued += 1;
                let placed = Effects::new().put(format!("placed/{}", self.enqueued), "x".repeat(dice.below(3_000)));
                let id = block_on(self.queue.enqueue_with(task(self.enqueued), placed))?.id;
                self.known.insert(id, (StateKind::Ready, 0));
            }
            1 => {
                for claim in block_on(self.queue.claim(aedb_tests::claims("w").max(3)))? {
                    self.known.insert(claim.id, (StateKind::InFlight, claim.token.as_u64()));
                    self.claims.push(claim);
                }
            }
            _ if self.claims.is_empty() => {}
            _ => {
                let claim = self.claims.swap_remove(dice.below(self.claims.len()));
                let effects =
                    Effects::new().assert_absent(format!("done/{}", claim.id)).put(format!("done/{}", claim.id), "");
                let completion = Completion::new().effects(effects).follow_up("after", task(0));
                assert!(block_on(self.queue.complete(&claim, completion))?.is_applied());
                self.known.insert(claim.id, (StateKind::Done, claim.token.as_u64()));
            }
        }
        Ok(())
    }

    /// Works until the power is lost, starts anew, and holds what is there against what was said.
    fn until_power_is_lost(&mut self, dice: &mut Dice) {
        self.disk.fail_after(dice.roll(120));
        while self.step(dice).is_ok() {}
        // What had the disk open goes first, as it does with its machine.
        self.db = Db::memory().unwrap();
        self.queue = self.db.queue("q").unwrap();
        self.disk.come_back(dice);
        self.db = self.disk.open(&self.clock);
        self.queue = self.db.queue("q").unwrap();
        let there = all(&self.queue);
        let surprises: Vec<_> =
            there.iter().filter(|record| self.known.get(&record.id) != Some(&seen(record))).collect();
        let lost = self.known.keys().filter(|id| !there.iter().any(|record| record.id == **id)).count();
        assert_eq!(lost, 0, "acknowledged and lost");
        // Only the last verb was not answered: it enqueued one task, claimed up to three or completed one.
        for record in &surprises {
            let (before, now) = (self.known.get(&record.id).copied(), seen(record));
            match before {
                None => assert_eq!((now, surprises.len()), ((StateKind::Ready, 0), 1)),
                Some((StateKind::Ready, token)) => assert_eq!(now, (StateKind::InFlight, token + 1)),
                Some((StateKind::InFlight, token)) => assert_eq!((now, surprises.len()), ((StateKind::Done, token), 1)),
                Some(known) => panic!("{known:?} became {now:?}"),
            }
        }
        self.known = there.iter().map(|record| (record.id, seen(record))).collect();
        self.claims.retain(|claim| self.known[&claim.id].0 == StateKind::InFlight);
        self.compare_effects();
    }

    /// Each effect and each follow-up is there if and only if what it rode with is.
    fn compare_effects(&self) {
        let keys = |prefix: &str| {
            let scope = self.db.default_scope();
            block_on(scope.kv().scan(KeyRange::prefix(prefix).limit(10_000))).unwrap().len()
        };
        let done = self.known.values().filter(|known| known.0 == StateKind::Done).count();
        let after = self.db.queue("after").unwrap();
        assert_eq!((keys("placed/"), keys("done/"), all(&after).len()), (self.known.len(), done, done));
        assert_clean(&self.queue);
        assert_clean(&after);
    }
}

#[test]
fn c06_what_was_acknowledged_survives_a_disk_that_tears_and_forgets_what_was_not_synced() {
    let (losses, kept) = (AtomicUsize::new(0), AtomicUsize::new(0));
    seeds(300, |seed| {
        let (mut machine, mut dice) = (Machine::new(), Dice::new(seed));
        (0..4).for_each(|_| machine.until_power_is_lost(&mut dice));
        losses.fetch_add(4, Ordering::Relaxed);
        kept.fetch_add(machine.known.len(), Ordering::Relaxed);
    });
    let much = format!("{}, {} tasks are as they were acknowledged", losses.into_inner(), kept.into_inner());
    aedb_tests::tell("losses of power on a disk that keeps only what was synced", &much);
}
