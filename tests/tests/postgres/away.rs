//! Servers that end sessions, restart, stay away, die, and are replaced by their standby: workers go on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedb_queue::{Db, LeaseLength, LeaseOutcome, Queue};
use aedb_tests::server::runtime;
use aedb_tests::{task, tell};
use aedb_worker::{Outcome, TaskContext, Worker};
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::{sleep, timeout};

use super::own::{Own, url};
use super::proxy::Proxy;

/// How soon workers go on when the server can be reached again.
const SOON: Duration = Duration::from_secs(10);

/// A worker, and somebody who enqueues one task after the other and remembers what was acknowledged.
struct Shop {
    queue: Queue,
    done: Arc<Mutex<BTreeSet<u64>>>,
    acknowledged: Arc<Mutex<BTreeSet<u64>>>,
    stops: Arc<AtomicBool>,
    parts: Vec<tokio::task::JoinHandle<()>>,
}

impl Shop {
    async fn open(url: &str) -> Self {
        let db = Db::connect(url).await.unwrap();
        let queue = db.queue("q").unwrap();
        let (done, acknowledged) = (Arc::<Mutex<BTreeSet<u64>>>::default(), Arc::<Mutex<BTreeSet<u64>>>::default());
        let stops = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let handler = move |n: u64, _: TaskContext| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().unwrap().insert(n);
                Ok(Outcome::done(()))
            }
        };
        let worker = Worker::builder(&db).queue("q").handler("n", handler).concurrency(8).build().unwrap();
        let stop = Arc::clone(&stops);
        let until = async move {
            while !stop.load(Ordering::SeqCst) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let works = tokio::spawn(async move { worker.run_until(until).await.unwrap() });
        let (own, known, stop) = (queue.clone(), Arc::clone(&acknowledged), Arc::clone(&stops));
        let next = AtomicU64::new(0);
        let sends = tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let n = next.fetch_add(1, Ordering::SeqCst);
                if own.enqueue(task(n)).await.is_ok() {
                    known.lock().unwrap().insert(n);
                }
                sleep(Duration::from_millis(3)).await;
            }
        });
        Self { queue, done, acknowledged, stops, parts: vec![works, sends] }
    }

    /// Waits until something that is enqueued from now on has run.
    async fn goes_on(&self) {
        let known = self.acknowledged.lock().unwrap().last().copied();
        let new = async {
            loop {
                let acknowledged = self.acknowledged.lock().unwrap().clone();
                let done = self.done.lock().unwrap().clone();
                if done.iter().any(|n| Some(*n) > known && acknowledged.contains(n)) {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(SOON, new).await.expect("workers go on soon");
    }

    /// Stops, lets the rest run, and answers how many were acknowledged: each of them was done.
    async fn close(self) -> usize {
        let all_done = async {
            sleep(Duration::from_millis(100)).await;
            while !self.acknowledged.lock().unwrap().is_subset(&self.done.lock().unwrap()) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(60), all_done).await.expect("nothing that was acknowledged is lost");
        self.stops.store(true, Ordering::SeqCst);
        for part in self.parts {
            part.await.unwrap();
        }
        assert_eq!(self.queue.stats().await.unwrap().dead, 0);
        assert!(self.queue.check().await.unwrap().is_clean());
        self.acknowledged.lock().unwrap().len()
    }
}

#[test]
fn c26_workers_go_on_when_their_sessions_are_ended_and_when_the_server_restarts_stays_away_or_dies() {
    let own = Own::start();
    runtime().block_on(async {
        let shop = Shop::open(&own.url()).await;
        shop.goes_on().await;
        for _ in 0..5 {
            let end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'aedb-queue'";
            PgConnection::connect(&own.url()).await.unwrap().execute(end).await.unwrap();
            shop.goes_on().await;
        }
        own.down();
        own.up();
        shop.goes_on().await;
        own.down();
        sleep(Duration::from_secs(4)).await;
        own.up();
        shop.goes_on().await;
        own.kill();
        sleep(Duration::from_millis(500)).await;
        own.up();
        shop.goes_on().await;
        let acknowledged = shop.close().await;
        tell("tasks over restarts and a kill of the server", &format!("{acknowledged} acknowledged, none lost"));
    });
}

#[test]
fn a_standby_that_takes_over_has_everything_that_was_acknowledged_and_tokens_still_grow() {
    let primary = Own::start();
    let standby = primary.standby();
    runtime().block_on(async {
        let proxy = Proxy::to(primary.port).await;
        let mut admin = PgConnection::connect(&primary.url()).await.unwrap();
        admin.execute("alter system set synchronous_standby_names = 'standby'").await.unwrap();
        admin.execute("select pg_reload_conf()").await.unwrap();
        let synchronous = "select exists (select 1 from pg_stat_replication where sync_state = 'sync')";
        while !sqlx::query_scalar::<_, bool>(synchronous).fetch_one(&mut admin).await.unwrap() {
            sleep(Duration::from_millis(50)).await;
        }
        let shop = Shop::open(&url(proxy.port)).await;
        let db = Db::connect(&url(proxy.port)).await.unwrap();
        let (queue, lease) = (db.queue("held").unwrap(), db.lease("keeper").unwrap());
        let task_id = queue.enqueue(task(1)).await.unwrap().id;
        let claimed = super::claim(&queue, 1).await;
        let before = claimed[0].token;
        let LeaseOutcome::Acquired(held) = lease.acquire("a", LeaseLength::secs(1)).await.unwrap() else { panic!() };
        shop.goes_on().await;

        primary.kill();
        sleep(Duration::from_millis(300)).await;
        standby.promote();
        proxy.lead_to(standby.port);
        shop.goes_on().await;

        let look = async {
            loop {
                match queue.get(task_id).await {
                    Ok(record) => return record,
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let record = timeout(SOON, look).await.unwrap().unwrap();
        assert_eq!(record.token, before, "the claim that was acknowledged is there");
        assert!(queue.release(&claimed[0]).await.unwrap().is_applied());
        let after = super::claim(&queue, 1).await[0].token;
        assert!(after > before);
        let taken = async {
            loop {
                // A connection that it had before is lost; the next try has another.
                if let Ok(LeaseOutcome::Acquired(taken)) = lease.acquire("b", LeaseLength::secs(30)).await {
                    return taken;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(taken.await.token > held.token);
        let acknowledged = shop.close().await;
        tell("tasks over a failover to a synchronous standby", &format!("{acknowledged} acknowledged, none lost"));
    });
}
