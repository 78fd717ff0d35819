//! A worker as a process that can be stopped, let go on, shut down and killed.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use aedb_queue::{Db, Result};
use aedb_tests::Dice;
use aedb_worker::testing::{Fault, Faults, Verb};
use aedb_worker::{Worker, WorkerHandle};
use tokio::task::{JoinHandle, spawn_local};

use super::work::handlers;
use super::world::World;

/// Stands between a process and whoever polls it.
#[derive(Debug, Clone, Default)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gate {
    /// Lets some work go on only while the gate is open.
    async fn hold<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(move |context| {
            let mut gate = self.0.lock().unwrap();
            if gate.0 {
                gate.1 = Some(context.waker().clone());
                return Poll::Pending;
            }
            drop(gate);
            work.as_mut().poll(context)
        })
        .await
    }

    fn close(&self) {
        self.0.lock().unwrap().0 = true;
    }

    fn open(&self) {
        let waker = {
            let mut gate = self.0.lock().unwrap();
            gate.0 = false;
            gate.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// What goes wrong between a process and the store: numbers of a hundred.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    pub(crate) fails: u64,
    pub(crate) loses: u64,
    pub(crate) late: u64,
}

impl Weather {
    /// Some weather, or none.
    pub(crate) fn of(dice: &mut Dice) -> Self {
        let mut some = |most| if dice.roll(3) == 0 { 0 } else { dice.roll(most) };
        Self { fails: some(8), loses: some(8), late: some(40) }
    }

    /// The database as a process in this weather sees it.
    pub(crate) fn over(self, db: &Db, world: &Arc<World>, dice: Dice) -> Db {
        self.over_a_line(db, world, dice, Arc::default())
    }

    /// The same over a line that may be cut.
    fn over_a_line(self, db: &Db, world: &Arc<World>, dice: Dice, cut: Arc<AtomicBool>) -> Db {
        let (faults, dice, world) = (Faults::new(), Mutex::new(dice), Arc::clone(world));
        faults.plan(move |call| {
            if cut.load(Ordering::SeqCst) {
                return Some(Fault::Fail);
            }
            let mut dice = dice.lock().unwrap();
            let roll = dice.roll(100);
            let wait = Duration::from_millis(if dice.roll(20) == 0 { dice.roll(4_000) } else { 1 + dice.roll(30) });
            let (fault, what) = if roll < self.fails {
                (Fault::Fail, "a call was refused as if the store were away")
            } else if roll < self.fails + self.loses && call.verb != Verb::Read {
                (Fault::LoseAnswer, "an answer was lost")
            } else if roll < self.fails + self.loses + self.late {
                (if dice.roll(2) == 0 { Fault::Delay(wait) } else { Fault::Late(wait) }, "a call was late")
            } else {
                return None;
            };
            let mut truth = world.truth();
            truth.happened(what);
            truth.note(format!("{:?}: {fault:?}", call.verb));
            Some(fault)
        });
        faults.on(db)
    }
}

/// One worker.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: Arc<str>,
    gate: Gate,
    /// Whether the line to the store is cut.
    cut: Arc<AtomicBool>,
    handle: WorkerHandle,
    running: JoinHandle<Result<()>>,
}

impl Process {
    /// Starts one under a name that none had before.
    pub(crate) fn start(world: &Arc<World>, db: &Db, dice: &mut Dice, weather: Weather) -> Self {
        let name: Arc<str> = format!("w{}", world.next()).into();
        let (cut, own) = (Arc::default(), Dice::new(dice.roll(u64::from(u32::MAX))));
        let builder = Worker::builder(&weather.over_a_line(db, world, own, Arc::clone(&cut)));
        let worker = handlers(builder, world)
            .owner(&name)
            .weighted_queue("q", 3)
            .queue("side")
            .concurrency(1 + dice.below(5))
            .prefetch(dice.below(4))
            .lease(Duration::from_millis(1_000 + dice.roll(2_000)))
            .grace(Duration::from_millis(dice.roll(1_500)))
            .poll_interval(Duration::from_millis(50 + dice.roll(400)))
            .checkpoint_every(Duration::from_millis(dice.roll(2) * 200));
        let worker = worker.build().unwrap();
        let (gate, handle) = (Gate::default(), worker.handle());
        let running = spawn_local(gate.clone().hold(worker.run_simulated(dice.roll(u64::from(u32::MAX)))));
        Self { name, gate, cut, handle, running }
    }

    /// As `kill -STOP`.
    pub(crate) fn stop(&self) {
        self.gate.close();
    }

    /// As `kill -CONT`.
    pub(crate) fn go_on(&self) {
        self.gate.open();
    }

    /// Cuts the line to the store, or mends it.
    pub(crate) fn cut_off(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    /// As `kill -KILL`.
    pub(crate) fn kill(self) {
        self.running.abort();
    }

    /// Shuts it down, and waits until it has ended.
    pub(crate) async fn shut_down(self) {
        self.handle.shutdown();
        // It may have ended with an error: a part of it that panics again and again ends it.
        let _ = self.running.await;
    }
}
