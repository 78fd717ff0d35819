//! A handler that takes its whole process with it.

use std::process::Command;
use std::time::Duration;

use aedb_queue::{Db, DeadReason, StateKind, TaskState};
use aedb_worker::{Outcome, TaskContext, TaskError};

use crate::{on, task};

const FILE: &str = "AEDB_WORKER_TEST_FILE";

/// Not a test by itself: the process that the next one starts, again and again.
#[tokio::test]
async fn child() {
    let Ok(file) = std::env::var(FILE) else { return };
    let db = Db::open(file).unwrap();
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
    let db = Db::open(&file).unwrap();
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
