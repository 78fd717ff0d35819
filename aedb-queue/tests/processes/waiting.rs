//! Callers that wait in one process for what another one does.

use std::time::Duration;

use aedb_queue::{ClaimRequest, Db, LeaseLength, NewTask, StateKind};
use futures::FutureExt as _;
use futures::executor::block_on;

use crate::process::Process;

#[test]
fn a_task_from_another_process_reaches_a_waiting_claim() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let queue = Db::open(&file).unwrap().queue("q").unwrap();
    let producer = Process::start("produce", &file);
    let request = ClaimRequest::new("w", LeaseLength::secs(30)).wait(Duration::from_secs(60));
    assert_eq!(block_on(queue.claim(request)).unwrap().len(), 1);
    producer.kill();
}

#[test]
fn an_end_in_another_process_answers_whoever_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let queue = Db::open(&file).unwrap().queue("q").unwrap();
    let mut worker = Process::start("answer", &file);
    worker.read_until("open");
    for round in 0..10 {
        let (payload, end) = if round % 2 == 0 { ("pay", StateKind::Done) } else { ("fail", StateKind::Dead) };
        // Not due yet, so that the wait is there before the worker is.
        let task = NewTask::new("n", payload).unwrap().delay(Duration::from_millis(100));
        let id = block_on(queue.enqueue(task)).unwrap().id;
        let mut waiting = Box::pin(queue.wait_for(id, Duration::from_secs(60)));
        assert!(waiting.as_mut().now_or_never().is_none(), "it has not ended");
        let record = block_on(waiting).unwrap().finished().unwrap();
        assert_eq!((record.id, record.state.kind()), (id, end));
        assert_eq!(record.result.is_some(), end == StateKind::Done);
        worker.read_until(&format!("ended {id}"));
    }
    worker.kill();
}
