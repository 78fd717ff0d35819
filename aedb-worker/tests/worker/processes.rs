//! Processes that die: a handler that takes its own with it, and dispatchers that are killed and stopped.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{DeadReason, Effects, StateKind, TaskState};
use aedb_worker::outbox::{Dispatcher, Event, Outbox, event};
use aedb_worker::{Outcome, TaskContext, TaskError};

use crate::{on, task};

const FILE: &str = "AEDB_WORKER_TEST_FILE";
const DISPATCH: &str = "AEDB_DISPATCH_TEST_FILE";
const OWNER: &str = "AEDB_DISPATCH_TEST_OWNER";

/// Not a test by itself: the process that the next one starts, again and again.
#[tokio::test]
async fn child() {
    let Ok(file) = std::env::var(FILE) else { return };
    let db = crate::store::shared(file.as_ref());
    async fn abort(_: u32, _: TaskContext) -> Result<Outcome, TaskError> {
        std::process::abort()
    }
    let worker = on(&db)
        .handler("abort", abort)
        .handler("good", |_: u32, _| async { Ok(Outcome::done(())) })
        .lease(Duration::from_secs(1))
        .concurrency(1)
        .build()
        .unwrap();
    let queue = db.queue("q").unwrap();
    let finished = async {
        crate::until(|| async {
            let stats = queue.stats().await.unwrap();
            stats.ready + stats.in_flight == 0
        })
        .await;
    };
    worker.run_until(finished).await.unwrap();
}

#[tokio::test]
async fn c20_c29_a_task_that_aborts_its_worker_each_time_is_parked_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("abort.db");
    let db = crate::store::shared(file.as_ref());
    let queue = db.queue("q").unwrap();
    let bad = queue.enqueue(task("abort").max_lost_leases(3)).await.unwrap().id;
    queue.enqueue_batch(vec![task("good"); 20]).await.unwrap();
    let mut crashes = 0;
    loop {
        let me = std::env::current_exe().unwrap();
        let ran = Command::new(me).args(["--exact", "processes::child"]).env(FILE, &file).output().unwrap();
        if ran.status.success() {
            break;
        }
        crashes += 1;
        assert!(crashes <= 3, "it was handed out more often than allowed");
    }
    let record = queue.get(bad).await.unwrap().unwrap();
    assert!(matches!(record.state, TaskState::Dead { reason: DeadReason::LeasesLost, .. }), "{:?}", record.state);
    assert_eq!((crashes, record.counters.lost_leases, record.counters.failures), (3, 3, 0));
    assert_eq!(queue.stats().await.unwrap().done, 20);
    assert_eq!(record.state.kind(), StateKind::Dead);
}

/// Not a test by itself: a dispatcher that writes each event to a log, and is killed and stopped by the next one.
#[tokio::test]
async fn dispatching_child() {
    let Ok(file) = std::env::var(DISPATCH) else { return };
    let (db, owner) = (crate::store::shared(file.as_ref()), std::env::var(OWNER).unwrap());
    let log = Arc::new(std::fs::OpenOptions::new().append(true).create(true).open(format!("{file}.log")).unwrap());
    let publish = move |event: Event| {
        let log = Arc::clone(&log);
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            // One write, at the end of the file: it is there wholly or not at all.
            (&*log).write_all(format!("{} {}\n", event.key, event.payload).as_bytes())?;
            Ok(())
        }
    };
    let dispatcher = Dispatcher::builder(&db).topic("t").publisher(publish).owner(&owner).lease(Duration::from_secs(1));
    dispatcher.poll_interval(Duration::from_millis(5)).build().unwrap().run().await.unwrap();
}

struct Dispatching(Child);

impl Dispatching {
    fn start(file: &Path, owner: &str) -> Self {
        let me = std::env::current_exe().unwrap();
        let mut command = Command::new(me);
        command.args(["--exact", "processes::dispatching_child"]).env(DISPATCH, file).env(OWNER, owner);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Dispatching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The numbers of each key, in the order of the log.
fn arrived(log: &str) -> BTreeMap<String, Vec<u64>> {
    let mut arrived: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in log.lines() {
        let (key, number) = line.split_once(' ').unwrap();
        arrived.entry(key.to_owned()).or_default().push(number.parse().unwrap());
    }
    arrived
}

#[tokio::test]
async fn two_dispatchers_that_are_killed_and_stopped_two_hundred_times_lose_nothing_and_keep_the_order_of_each_key() {
    let rounds: u64 = std::env::var("AEDB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dispatch.db");
    let db = crate::store::shared(file.as_ref());
    let kv = db.default_scope().kv();
    let keys: Vec<String> = (0..40).map(|n| format!("key-{n}")).collect();
    let owners = ["ada", "bob"];
    let mut children = owners.map(|owner| Dispatching::start(&file, owner));
    for round in 0..rounds {
        let victim = usize::try_from(round % 2).unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
        let effects = keys.iter().map(|key| event("t", key, &round).unwrap()).reduce(Effects::and).unwrap();
        kv.commit(effects).await.unwrap();
        // In the middle of what they do with it: before, while, and after they publish and record.
        tokio::time::sleep(Duration::from_millis(round * 7 % 40)).await;
        if round % 20 == 19 {
            // Longer than its lease: the other takes its lanes, and it wakes up as a zombie.
            children[victim].signal("-STOP");
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            children[victim].signal("-CONT");
        } else {
            children[victim] = Dispatching::start(&file, owners[victim]);
        }
    }
    drop(children);
    let log = format!("{}.log", file.display());
    let last = std::fs::OpenOptions::new().append(true).create(true).open(&log).unwrap();
    let publish = move |event: Event| {
        let written = (&last).write_all(format!("{} {}\n", event.key, event.payload).as_bytes());
        std::future::ready(written.map_err(TaskError::from))
    };
    // The killed ones' leases end within a second.
    let dispatcher =
        Dispatcher::builder(&db).topic("t").publisher(publish).lease(Duration::from_secs(1)).build().unwrap();
    let (handle, running) = (dispatcher.handle(), tokio::spawn(dispatcher.run()));
    let outbox = Outbox::new(&db.default_scope(), "t").unwrap();
    crate::until(|| async { outbox.waiting(1).await.unwrap() == 0 }).await;
    handle.shutdown();
    running.await.unwrap().unwrap();
    let (log, mut again) = (arrived(&std::fs::read_to_string(&log).unwrap()), 0);
    assert_eq!(log.len(), keys.len());
    for (key, numbers) in log {
        let mut next = 0;
        for number in numbers {
            // An event may come again after a kill, but none before all that are older.
            assert!(number <= next, "{key}: {number} came before {next}");
            again += u64::from(number < next);
            next += u64::from(number == next);
        }
        assert_eq!(next, rounds, "{key} has lost what came behind");
    }
    let much = format!("{rounds} kills and stops, {} events, {again} came again, all in order", rounds * 40);
    crate::summary::tell("two dispatchers of an outbox", &much);
    assert!(again > 0, "nobody was killed in the middle of anything");
}
