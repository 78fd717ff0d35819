//! The queue, what it should hold, and the steps that both take.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
#[cfg(feature = "postgres")]
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{
    Access, Amendment, Backoff, ClaimRequest, ClaimedTask, Completion, Db, Due, Effects, ErrorKind, GrantTarget, Json,
    LeaseLength, ManualClock, NewTask, Queue, RetentionLimits, Retry, StateKind, TaskId,
};
use futures::executor::block_on;

use crate::dice::Dice;
use crate::reference::{LEASE, MAX_ATTEMPTS, MAX_LOST, Ref, State, WAIT};

/// What a verb that was applied does to the reference.
type Next = Box<dyn Fn(&mut Ref)>;

pub(crate) struct World {
    clock: ManualClock,
    // Before the place: a queue closes before its schema goes.
    queue: Queue,
    /// The same on behalf of somebody who may write, and of somebody who may nothing.
    ada: Queue,
    eve: Queue,
    place: Place,
    now: u64,
    tasks: BTreeMap<TaskId, Ref>,
    /// Every claim ever handed out, current or stale.
    claims: Vec<ClaimedTask>,
    /// Deaths by lost leases that no sweep has told yet.
    untold: BTreeSet<TaskId>,
}

/// Where the tasks are.
pub(crate) enum Place {
    Memory,
    File(PathBuf),
    /// A scope of its own on a server.
    #[cfg(feature = "postgres")]
    Server(Arc<crate::server::Schema>, String),
}

impl Place {
    fn scope(&self) -> &str {
        match self {
            Self::Memory | Self::File(_) => "model",
            #[cfg(feature = "postgres")]
            Self::Server(_, scope) => scope,
        }
    }
}

const NAMES: [&str; 2] = ["a", "b"];

fn open(clock: &ManualClock, place: &Place) -> Db {
    let builder = Db::builder().clock(clock.clone()).inline();
    let db = match place {
        Place::File(file) => builder.open(file),
        Place::Memory => builder.memory(),
        #[cfg(feature = "postgres")]
        Place::Server(schema, _) => schema.connect(builder),
    };
    db.unwrap()
}

/// The queue in general, for Ada and for Eve.
fn handles(db: &Db, place: &Place) -> [Queue; 3] {
    let scope = db.scope("project", place.scope()).unwrap();
    let of = |caller: &str| scope.as_caller(caller).unwrap().queue("q").unwrap();
    [scope.queue("q").unwrap(), of("ada"), of("eve")]
}

impl World {
    pub(crate) fn new(place: Place) -> Self {
        let clock = ManualClock::default();
        let db = open(&clock, &place);
        let [queue, ada, eve] = handles(&db, &place);
        let target = GrantTarget::Queue { project: "project".into(), scope: place.scope().into(), queue: "q".into() };
        block_on(db.grant("ada", target, Some(Access::Write))).unwrap();
        let (tasks, claims, untold) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { clock, queue, ada, eve, place, now: 0, tasks, claims, untold }
    }

    fn restart(&mut self) {
        if !matches!(self.place, Place::Memory) {
            // The old handle must go first: the inline engine closes with its last handle.
            [self.queue, self.ada, self.eve] = handles(&Db::memory().unwrap(), &self.place);
            [self.queue, self.ada, self.eve] = handles(&open(&self.clock, &self.place), &self.place);
        }
    }

    pub(crate) fn step(&mut self, dice: &mut Dice) {
        match dice.roll(16) {
            0..=2 => self.enqueue(dice),
            14 => self.refuse_eve(dice),
            3..=5 => self.claim(dice),
            6..=8 => self.settle(dice),
            9 => self.pass(dice.roll(2 * LEASE)),
            10 => self.by_hand(dice),
            11 => self.restart(),
            12..=13 => self.amend(dice),
            _ => self.sweep(),
        }
    }

    fn pass(&mut self, secs: u64) {
        self.now += secs;
        self.clock.advance(Duration::from_secs(secs));
    }

    /// One task, or a batch in which a key may come twice; sometimes by Ada.
    fn enqueue(&mut self, dice: &mut Dice) {
        let many = if dice.roll(4) == 0 { 2 + dice.roll(3) } else { 1 };
        let drawn: Vec<_> = (0..many).map(|_| self.draw(dice)).collect();
        let tasks = drawn.iter().map(|(task, _)| task.clone()).collect();
        let queue = if dice.roll(4) == 0 { &self.ada } else { &self.queue };
        let outcomes = block_on(queue.enqueue_batch(tasks)).unwrap();
        assert_eq!(outcomes.len(), drawn.len());
        for (outcome, (_, task)) in outcomes.into_iter().zip(drawn) {
            // Histories last less than the window of a day, so a key that was used once stays used.
            let holder = self.tasks.iter().find(|(_, other)| task.key.is_some() && other.key == task.key);
            assert_eq!(outcome.deduplicated, holder.is_some());
            match holder {
                Some((id, _)) => assert_eq!(outcome.id, *id),
                None => assert!(self.tasks.insert(outcome.id, task).is_none()),
            }
        }
    }

    fn draw(&self, dice: &mut Dice) -> (NewTask, Ref) {
        let (priority, name) = (dice.roll(3), NAMES[usize::from(dice.roll(2) == 1)]);
        let delay = if dice.roll(3) == 0 { dice.roll(20) } else { 0 };
        let key = (dice.roll(2) == 0).then(|| dice.roll(4));
        let mut task = NewTask::new(name, &7)
            .unwrap()
            .priority(priority)
            .delay(Duration::from_secs(delay))
            .max_attempts(MAX_ATTEMPTS)
            .max_lost_leases(MAX_LOST)
            .backoff(Backoff::fixed(Duration::from_secs(WAIT)));
        if let Some(key) = key {
            task = task.idempotency_key(key.to_string());
        }
        let state = if delay == 0 { State::Ready } else { State::Scheduled(self.now + delay) };
        (task, Ref { priority, name, state, token: 0, max_attempts: MAX_ATTEMPTS, failures: 0, lost: 0, key })
    }

    /// Whatever Eve tries is refused, and changes nothing.
    fn refuse_eve(&self, dice: &mut Dice) {
        let id = self.tasks.keys().nth(usize::try_from(dice.roll(8)).unwrap()).copied();
        let id = id.unwrap_or(TaskId::from_u64(1));
        let refused = match dice.roll(4) {
            0 => block_on(self.eve.enqueue(self.draw(dice).0)).map(drop),
            1 => block_on(self.eve.claim(ClaimRequest::new("eve", LeaseLength::secs(LEASE)))).map(drop),
            2 => block_on(self.eve.cancel(id)).map(drop),
            _ => block_on(self.eve.get(id)).map(drop),
        };
        assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::PermissionDenied));
    }

    /// What is due moves, as before every claim and in every sweep.
    fn move_due(&mut self) {
        for (id, task) in &mut self.tasks {
            match task.state {
                State::InFlight(deadline) if deadline <= self.now => {
                    task.lost += 1;
                    task.state = if task.lost >= MAX_LOST { State::Dead } else { State::Ready };
                    self.untold.extend((task.state == State::Dead).then_some(*id));
                }
                State::Scheduled(due) if due <= self.now => task.state = State::Ready,
                _ => {}
            }
        }
    }

    fn claim(&mut self, dice: &mut Dice) {
        let (max, only) = (1 + dice.roll(4), (dice.roll(3) == 0).then_some("a"));
        let mut request = ClaimRequest::new("w", LeaseLength::secs(LEASE)).max(usize::try_from(max).unwrap());
        if let Some(name) = only {
            request = request.names([name]);
        }
        let claimed = block_on(self.queue.claim(request)).unwrap();
        self.move_due();
        let served = self.serve(usize::try_from(max).unwrap(), only);
        assert_eq!(claimed.iter().map(|task| task.id).collect::<Vec<_>>(), served);
        for claim in claimed {
            let task = self.tasks.get_mut(&claim.id).unwrap();
            task.token += 1;
            assert_eq!((claim.token.as_u64(), &*claim.name), (task.token, task.name));
            task.state = State::InFlight(self.now + LEASE);
            self.claims.push(claim);
        }
    }

    /// Which tasks a claim gets. One that was amended in flight and came back may be spent: it dies where a claim meets it.
    fn serve(&mut self, max: usize, only: Option<&str>) -> Vec<TaskId> {
        let ready = |task: &Ref| task.state == State::Ready && only.is_none_or(|name| name == task.name);
        let mut line: Vec<_> = self.tasks.iter_mut().filter(|(_, task)| ready(task)).collect();
        line.sort_by_key(|(id, task)| (u64::MAX - task.priority, **id));
        let mut served = Vec::new();
        for (id, task) in line {
            if served.len() == max {
                break;
            } else if task.is_spent() {
                task.state = State::Dead;
                self.untold.insert(*id);
            } else {
                served.push(*id);
            }
        }
        served
    }

    fn settle(&mut self, dice: &mut Dice) {
        if self.claims.is_empty() {
            return;
        }
        let at = usize::try_from(dice.roll(self.claims.len() as u64)).unwrap();
        let (claim, now) = (self.claims[at].clone(), self.now);
        let task = self.tasks.get_mut(&claim.id);
        let current =
            task.filter(|task| task.token == claim.token.as_u64() && matches!(task.state, State::InFlight(_)));
        let expected = current.is_some();
        // What a claim foretells is good for as long as nobody amends the task.
        let unchanged = current.as_ref().is_some_and(|task| task.max_attempts == claim.max_attempts);
        let foretold = unchanged.then(|| claim.would_die(&Retry::ByPolicy));
        let (queue, lease) = (&self.queue, LeaseLength::secs(LEASE));
        let (applied, next): (bool, Next) = match dice.roll(8) {
            0 | 1 => (
                block_on(queue.complete(&claim, Completion::new())).unwrap().is_applied(),
                Box::new(|task| task.state = State::Done),
            ),
            2 | 3 => (
                block_on(queue.fail(&claim, "x")).unwrap().is_applied(),
                Box::new(move |task| {
                    task.failures += 1;
                    task.state = if task.is_spent() { State::Dead } else { State::Scheduled(now + WAIT) };
                    assert!(foretold.is_none_or(|dies| dies == (task.state == State::Dead)));
                }),
            ),
            4 => (
                block_on(queue.snooze(&claim, Due::After(Duration::from_secs(3)))).unwrap().is_applied(),
                Box::new(move |task| task.state = State::Scheduled(now + 3)),
            ),
            5 => (
                block_on(queue.discard(&claim, "not wanted")).unwrap().is_applied(),
                Box::new(|task| task.state = State::Cancelled),
            ),
            6 => {
                let (payload, later) = (Json::of(&"x".repeat(600)).unwrap(), Due::After(Duration::from_secs(2)));
                (
                    block_on(queue.continue_with(&claim, payload, Effects::new(), later)).unwrap().is_applied(),
                    Box::new(move |task| (task.state, task.failures, task.lost) = (State::Scheduled(now + 2), 0, 0)),
                )
            }
            _ => (
                matches!(
                    block_on(queue.heartbeat(&claim, lease, None)).unwrap(),
                    aedb_queue::HeartbeatOutcome::Extended(_)
                ),
                Box::new(move |task| {
                    if let State::InFlight(deadline) = task.state {
                        task.state = State::InFlight(deadline.max(now + LEASE));
                    }
                }),
            ),
        };
        assert_eq!(applied, expected, "token {} of {}", claim.token, claim.id);
        if let Some(task) = current {
            next(task);
        }
    }

    fn by_hand(&mut self, dice: &mut Dice) {
        let Some(id) = self.tasks.keys().nth(usize::try_from(dice.roll(8)).unwrap()).copied() else { return };
        let task = self.tasks.get_mut(&id).unwrap();
        let alive = task.is_live();
        assert!(alive || !block_on(self.queue.amend(id, Amendment::new())).unwrap());
        match dice.roll(3) {
            0 => {
                assert_eq!(block_on(self.queue.cancel(id)).unwrap(), alive);
                if alive {
                    task.state = State::Cancelled;
                }
            }
            1 => {
                let again = matches!(task.state, State::Scheduled(_) | State::Dead | State::Cancelled);
                assert_eq!(block_on(self.queue.retry(id)).unwrap(), again);
                if again {
                    (task.state, task.failures, task.lost) = (State::Ready, 0, 0);
                }
            }
            _ => {
                let idle = !matches!(task.state, State::InFlight(_));
                assert_eq!(block_on(self.queue.delete(id)).unwrap(), idle);
                if idle {
                    self.tasks.remove(&id);
                }
            }
        }
    }

    /// Of the live task that has failed most: it is the one that an amendment can kill.
    fn amend(&mut self, dice: &mut Dice) {
        let live = self.tasks.iter().filter(|(_, task)| task.is_live());
        let Some(id) = live.max_by_key(|(_, task)| task.failures).map(|(id, _)| *id) else { return };
        let (priority, max_attempts) = (dice.roll(3), 1 + u32::try_from(dice.roll(3)).unwrap());
        let amendment = Amendment::new().priority(priority).max_attempts(max_attempts);
        assert!(block_on(self.queue.amend(id, amendment)).unwrap());
        let task = self.tasks.get_mut(&id).unwrap();
        (task.priority, task.max_attempts) = (priority, max_attempts);
        if task.is_spent() && !matches!(task.state, State::InFlight(_)) {
            task.state = State::Dead;
            self.untold.insert(id);
        }
    }

    fn sweep(&mut self) {
        let report = block_on(self.queue.sweep(RetentionLimits::default())).unwrap();
        self.move_due();
        assert_eq!(report.died, std::mem::take(&mut self.untold).into_iter().collect::<Vec<_>>());
    }

    pub(crate) fn compare(&self) {
        let stats = block_on(self.queue.stats()).unwrap();
        let count = |kind| self.tasks.values().filter(|task| task.state.kind() == kind).count() as u64;
        let said = [stats.scheduled, stats.ready, stats.in_flight, stats.done, stats.dead, stats.cancelled];
        assert_eq!(said, StateKind::ALL.map(count));
        for (id, task) in &self.tasks {
            let record = block_on(self.queue.get(*id)).unwrap().unwrap();
            assert_eq!((record.state.kind(), record.token.as_u64()), (task.state.kind(), task.token));
            assert_eq!((record.counters.failures, record.counters.lost_leases), (task.failures, task.lost));
        }
        let report = block_on(self.queue.check()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }

    /// Once nobody fails any more, everything that lives gets done.
    pub(crate) fn drain(&mut self) {
        for _ in 0..200 {
            self.pass(LEASE);
            let claimed =
                block_on(self.queue.claim(ClaimRequest::new("w", LeaseLength::secs(LEASE)).max(100))).unwrap();
            for claim in &claimed {
                assert!(block_on(self.queue.complete(claim, Completion::new())).unwrap().is_applied());
            }
            let stats = block_on(self.queue.stats()).unwrap();
            if stats.ready + stats.in_flight + stats.scheduled == 0 {
                return;
            }
        }
        panic!("it does not drain");
    }
}
