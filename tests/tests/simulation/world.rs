//! One simulated machine, from its first start until everything is done.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aedb_queue::{Db, Filter, KeyRange, Queue, StateKind, TaskRecord};
use aedb_tests::{Dice, LosingDisk};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use super::oracle::Oracle;
use super::people::{clock_setter, disturber, keeper, operator, producer};
use super::process::{Process, Weather};
use super::tally::Tally;
use super::time::WallClock;
use super::truth::Truth;

/// How many tasks are enqueued.
const TASKS: u64 = 40;
/// When everything must be done after the faults have stopped.
const PATIENCE: Duration = Duration::from_hours(1);

/// What all parts of a simulation share.
pub(crate) struct World {
    pub(crate) clock: WallClock,
    truth: Arc<Mutex<Truth>>,
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    workers: u64,
    next: u64,
    /// Given to a producer, and not acknowledged.
    open: BTreeSet<u64>,
    acknowledged: BTreeSet<u64>,
}

/// What a simulation answers.
pub(crate) struct Report {
    pub(crate) tally: Tally,
    pub(crate) passed: Duration,
    /// Two runs with one fingerprint were the same.
    pub(crate) fingerprint: u64,
    /// The rule that was broken, with the end of the history.
    pub(crate) broken: Option<String>,
}

impl World {
    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap()
    }

    pub(crate) fn happened(&self, what: &'static str) {
        self.truth().happened(what);
    }

    /// A number that no worker had.
    pub(crate) fn next(&self) -> u64 {
        let mut numbers = self.numbers.lock().unwrap();
        numbers.workers += 1;
        numbers.workers
    }

    /// The next task to enqueue: one that was not acknowledged before its producer died, or a new one.
    pub(crate) fn next_number(&self) -> Option<u64> {
        let numbers = &mut *self.numbers.lock().unwrap();
        let number = numbers.open.pop_first().or_else(|| {
            numbers.next += 1;
            (numbers.next <= TASKS).then_some(numbers.next)
        })?;
        Some(number)
    }

    pub(crate) fn acknowledged(&self, numbers: &[u64]) {
        self.numbers.lock().unwrap().acknowledged.extend(numbers);
    }

    /// The producers are dead: what they had and was not acknowledged is somebody else's.
    fn producers_died(&self) {
        let numbers = &mut *self.numbers.lock().unwrap();
        numbers.open = (1..=numbers.next.min(TASKS)).filter(|number| !numbers.acknowledged.contains(number)).collect();
    }
}

/// How a life of the database ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The process ends and another opens the file.
    Restart,
    /// The power fails within so many steps of the disk.
    PowerLoss(u64),
    /// The disk has no room for a while; then the database is opened again.
    Full,
}

/// Runs one simulation. Its runtime must be of one thread, and its clock paused.
pub(crate) async fn simulate(seed: u64) -> Report {
    let mut dice = Dice::new(seed);
    let (disk, clock) = (LosingDisk::default(), WallClock::new());
    let truth = Arc::new(Mutex::new(Truth::new(&clock)));
    let world = Arc::new(World { clock, truth, numbers: Mutex::default() });
    for _ in 0..dice.roll(4) {
        let end = match dice.roll(4) {
            0 => End::Restart,
            1 => End::Full,
            _ => End::PowerLoss(1 + dice.roll(2_500)),
        };
        let db = open(&world, &disk).await;
        within(&world, live(&world, &disk, &db, end, &mut dice)).await;
        drop(db);
        world.producers_died();
        let mut truth = world.truth();
        if disk.is_dead() {
            let lost = disk.come_back(&mut dice);
            truth.happened("the power was lost");
            truth.tally.add("an unsynced sector got there", lost.kept);
            truth.tally.add("an unsynced sector was lost", lost.gone);
            truth.note(format!("the power was lost: {lost:?}"));
        } else {
            truth.happened("a clean restart");
        }
    }
    let db = open(&world, &disk).await;
    within(&world, drain(&world, &db, &mut dice)).await;
    verify(&world, &db).await;
    let truth = world.truth();
    Report {
        tally: truth.tally.clone(),
        passed: world.clock.passed(),
        fingerprint: truth.fingerprint(),
        broken: truth.broken.clone(),
    }
}

/// Opens the database and holds what is there against what was acknowledged.
async fn open(world: &World, disk: &LosingDisk) -> Db {
    world.clock.hang_up();
    let db = disk.open(&world.clock);
    let mut there = Vec::new();
    for name in ["q", "side"] {
        let queue = db.queue(name).unwrap();
        there.extend(all(&queue).await);
        let problems = queue.check().await.unwrap().problems;
        if !problems.is_empty() {
            world.truth().breaks(format!("after opening: {problems:?}"));
        }
    }
    world.truth().reopened(&there);
    db
}

async fn all(queue: &Queue) -> Vec<TaskRecord> {
    queue.list(Filter::all().limit(1_000)).await.unwrap().tasks
}

/// Lets everybody live as long as some work takes, beside the clock.
async fn within(world: &Arc<World>, work: impl Future<Output = ()>) {
    let everybody = LocalSet::new();
    let clock = world.clock.clone();
    everybody.spawn_local(async move {
        loop {
            sleep(Duration::from_millis(40)).await;
            clock.ring();
        }
    });
    everybody.run_until(work).await;
    // What still runs is killed with it.
}

/// A life with faults, until its end.
async fn live(world: &Arc<World>, disk: &LosingDisk, db: &Db, end: End, dice: &mut Dice) {
    let db = Oracle::watch(db, &world.truth);
    let mut more = || Dice::new(dice.roll(u64::from(u32::MAX)));
    let (mut first, mut second) = (more(), more());
    let mut workers = Vec::new();
    for _ in 0..=first.roll(3) {
        let weather = Weather::of(&mut first);
        workers.push(Process::start(world, &db, &mut first, weather));
    }
    spawn_local(disturber(Arc::clone(world), db.clone(), workers, more()));
    for _ in 0..2 {
        let seen = Weather::of(&mut second).over(&db, world, more());
        spawn_local(producer(Arc::clone(world), seen, more()));
    }
    let seen = Weather::of(&mut second).over(&db, world, more());
    spawn_local(operator(Arc::clone(world), seen.clone(), more()));
    for name in ["a", "b"] {
        spawn_local(keeper(name.to_owned(), seen.clone(), more()));
    }
    if second.roll(2) == 0 {
        spawn_local(clock_setter(Arc::clone(world), more()));
    }
    if let End::PowerLoss(steps) = end {
        disk.fail_after(steps);
    }
    let whole = Duration::from_millis(2_000 + dice.roll(20_000));
    let until = world.clock.passed() + whole;
    while world.clock.passed() < until && !disk.is_dead() && world.truth().broken.is_none() {
        sleep(Duration::from_millis(100)).await;
    }
    match end {
        // Everybody sees a store that has failed, for a while.
        End::PowerLoss(_) => sleep(Duration::from_millis(dice.roll(3_000))).await,
        End::Full => {
            disk.fill(true);
            sleep(Duration::from_millis(dice.roll(6_000))).await;
            if disk.fill(false) > 0 {
                world.happened("the disk was full");
            }
        }
        End::Restart => {}
    }
}

/// No more faults: everything that was wanted is done.
async fn drain(world: &Arc<World>, db: &Db, dice: &mut Dice) {
    let db = Oracle::watch(db, &world.truth);
    let queues = ["q", "side"].map(|name| db.queue(name).unwrap());
    for queue in &queues {
        queue.resume().await.unwrap();
    }
    spawn_local(producer(Arc::clone(world), db.clone(), Dice::new(1)));
    let worker = Process::start(world, &db, dice, Weather::default());
    let since = world.clock.passed();
    loop {
        sleep(Duration::from_millis(200)).await;
        let mut live = 0;
        for queue in &queues {
            let stats = queue.stats().await.unwrap();
            live += stats.scheduled + stats.ready + stats.in_flight;
        }
        let acknowledged = world.numbers.lock().unwrap().acknowledged.len() as u64;
        if world.truth().broken.is_some() || live == 0 && acknowledged == TASKS {
            break;
        }
        if world.clock.passed() - since > PATIENCE {
            return world.truth().breaks(format!("it does not drain: {live} tasks live"));
        }
    }
    worker.shut_down().await;
}

/// Every task is there once, with all its effects or none.
async fn verify(world: &World, db: &Db) {
    let (queue, side) = (db.queue("q").unwrap(), db.queue("side").unwrap());
    let keys = |prefix: &'static str| {
        let kv = db.default_scope().kv();
        async move {
            let found = kv.scan(KeyRange::prefix(prefix).limit(10_000)).await.unwrap();
            found.into_iter().map(|(key, value)| (text(&key[prefix.len()..]), text(&value))).collect::<Vec<_>>()
        }
    };
    let (tasks, follow_ups) = (all(&queue).await, all(&side).await);
    let done = keys("done/").await;
    let written = |record: &TaskRecord| {
        let tokens: Vec<_> = done.iter().filter(|(id, _)| *id == record.id.to_string()).collect();
        tokens.first().map(|(_, token)| token.clone())
    };
    let wants = |right: bool, what: String| {
        if !right {
            world.truth().breaks(what);
        }
    };
    wants(tasks.len() as u64 == TASKS, format!("{} tasks of {TASKS}", tasks.len()));
    for record in tasks.iter().chain(&follow_ups) {
        let is_done = record.state.kind() == StateKind::Done;
        let token = is_done.then(|| record.token.to_string());
        wants(written(record) == token, format!("the effects of {record:?}"));
        wants(record.counters.failures <= record.max_attempts, format!("{record:?}"));
    }
    let completed: BTreeSet<_> = tasks
        .iter()
        .filter(|task| task.state.kind() == StateKind::Done)
        .map(|task| format!("follow/{}", task.id))
        .collect();
    let followed: BTreeSet<_> =
        follow_ups.iter().map(|task| task.idempotency_key.as_deref().unwrap().to_owned()).collect();
    wants(follow_ups.len() == followed.len(), "a follow-up came twice".to_owned());
    wants(completed == followed, format!("done {completed:?}, followed {followed:?}"));
    for queue in [queue, side] {
        let problems = queue.check().await.unwrap().problems;
        if !problems.is_empty() {
            world.truth().breaks(format!("at the end: {problems:?}"));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
