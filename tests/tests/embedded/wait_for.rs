//! Waiting for the end of a task: answered by the commit that ends it, and never later than it was told.
//!
//! The clock stands, and the writer never looks by itself: what answers is the commit, or the clock when it is moved.

use std::pin::Pin;

use aedb_queue::{
    Completion, Db, Due, Effects, ErrorKind, Json, ManualClock, Result, RetentionLimits, Retry, StateKind, TaskId,
    TaskState, WaitOutcome,
};
use aedb_tests::{FailingDisk, Shop, claims, poll_once, secs, task};
use futures::executor::block_on;

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<WaitOutcome>> + Send + 'a>>;

fn shop() -> Shop {
    let clock = ManualClock::default();
    Shop::on(Db::builder().clock(clock.clone()).memory().unwrap(), clock)
}

/// A wait of up to a minute that has nothing to answer yet, and is parked.
fn waits(shop: &Shop, id: TaskId) -> Waiting<'_> {
    let mut waiting: Waiting<'_> = Box::pin(shop.queue.wait_for(id, secs(60)));
    assert!(poll_once(&mut waiting).is_pending());
    waiting
}

fn ended(waiting: Waiting<'_>) -> StateKind {
    block_on(waiting).unwrap().finished().unwrap().state.kind()
}

#[test]
fn it_is_answered_by_the_commit_that_completes_the_task_with_its_result() {
    let shop = shop();
    let id = shop.enqueue(task(1));
    let waiting = waits(&shop, id);
    let claim = shop.claim_one();
    let result = Json::of("paid").unwrap();
    assert!(block_on(shop.queue.complete(&claim, Completion::new().result(result.clone()))).unwrap().is_applied());
    let record = block_on(waiting).unwrap().finished().unwrap();
    assert_eq!((record.state, record.result), (TaskState::Done { at: shop.now() }, Some(result)));
}

#[test]
fn it_is_answered_by_each_way_in_which_a_task_ends() {
    let shop = shop();
    let next = || {
        let id = shop.enqueue(task(1));
        (waits(&shop, id), id)
    };
    let (waiting, _) = next();
    assert!(block_on(shop.queue.fail_with(&shop.claim_one(), "no", Retry::Fatal)).unwrap().is_applied());
    assert_eq!(ended(waiting), StateKind::Dead);

    let (waiting, _) = next();
    assert!(block_on(shop.queue.discard(&shop.claim_one(), "no")).unwrap().is_applied());
    assert_eq!(ended(waiting), StateKind::Cancelled);

    let (waiting, id) = next();
    assert!(block_on(shop.queue.cancel(id)).unwrap());
    assert_eq!(ended(waiting), StateKind::Cancelled);

    let (waiting, id) = next();
    assert!(block_on(shop.queue.delete(id)).unwrap());
    assert_eq!(block_on(waiting).unwrap(), WaitOutcome::Gone);

    let (waiting, _) = next();
    assert!(block_on(shop.queue.complete(&shop.claim_one(), Completion::new().keep(secs(0)))).unwrap().is_applied());
    assert_eq!(block_on(waiting).unwrap(), WaitOutcome::Gone);
}

#[test]
fn a_task_that_a_waiting_claim_makes_dead_answers_those_who_waited_before_it() {
    let shop = shop();
    let id = shop.enqueue(task(1).max_lost_leases(1));
    shop.claim_one();
    let waiting = waits(&shop, id);
    let mut claim: Pin<Box<_>> = Box::pin(shop.queue.claim(claims("w").wait(secs(600))));
    assert!(poll_once(&mut claim).is_pending());
    shop.outlive_leases();
    assert_eq!(ended(waiting), StateKind::Dead);
}

#[test]
fn a_task_that_a_sweep_makes_dead_answers_too() {
    let shop = shop();
    let id = shop.enqueue(task(1).max_lost_leases(1));
    shop.claim_one();
    shop.pass(secs(29));
    let waiting = waits(&shop, id);
    shop.pass(secs(1));
    block_on(shop.queue.sweep(RetentionLimits::default())).unwrap();
    assert_eq!(ended(waiting), StateKind::Dead);
}

#[test]
fn a_task_that_only_moves_on_is_waited_for_until_the_time_is_over() {
    let shop = shop();
    let id = shop.enqueue(task(1));
    let waiting = waits(&shop, id);
    let claim = shop.claim_one();
    let later = Due::After(secs(100));
    assert!(block_on(shop.queue.continue_with(&claim, Json::null(), Effects::new(), later)).unwrap().is_applied());
    shop.pass(secs(60));
    assert_eq!(block_on(waiting).unwrap(), WaitOutcome::Pending(StateKind::Scheduled));
}

#[test]
fn what_has_ended_what_never_was_and_a_wait_of_no_time_are_answered_at_once() {
    let shop = shop();
    let id = shop.enqueue(task(1));
    let wait = |id, time| block_on(shop.queue.wait_for(id, time)).unwrap();
    assert_eq!(wait(id, secs(0)), WaitOutcome::Pending(StateKind::Ready));
    assert_eq!(wait(TaskId::from_u64(7), secs(60)), WaitOutcome::Gone);
    assert!(shop.complete(&shop.claim_one()).is_applied());
    assert!(wait(id, std::time::Duration::MAX).finished().is_some());
}

#[test]
fn an_inline_database_answers_what_is_so_now() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    let answer = block_on(shop.queue.wait_for(id, secs(60))).unwrap();
    assert_eq!(answer, WaitOutcome::Pending(StateKind::Ready));
}

#[test]
fn a_wait_that_is_dropped_leaves_nothing_and_many_are_all_answered() {
    let shop = shop();
    let id = shop.enqueue(task(1));
    (0..500).for_each(|_| drop(waits(&shop, id)));
    let waiting: Vec<_> = (0..2_000).map(|_| waits(&shop, id)).collect();
    assert!(shop.complete(&shop.claim_one()).is_applied());
    assert!(waiting.into_iter().all(|waiting| ended(waiting) == StateKind::Done));
}

#[test]
fn a_store_that_fails_answers_those_who_wait_with_an_error() {
    let disk = FailingDisk::default();
    let clock = ManualClock::default();
    let db = Db::builder().clock(clock).backend(disk.clone()).unwrap();
    let queue = db.queue("q").unwrap();
    let id = block_on(queue.enqueue(task(1))).unwrap().id;
    let mut waiting: Waiting<'_> = Box::pin(queue.wait_for(id, secs(60)));
    assert!(poll_once(&mut waiting).is_pending());
    disk.allow(0);
    assert!(block_on(queue.enqueue(task(2))).is_err());
    assert!(block_on(waiting).is_err());
}

#[test]
fn only_who_may_read_the_queue_may_wait() {
    let shop = shop();
    let id = shop.enqueue(task(1));
    let queue = shop.db.default_scope().as_caller("eve").unwrap().queue("q").unwrap();
    assert_eq!(block_on(queue.wait_for(id, secs(60))).unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[test]
fn an_end_that_another_handle_of_the_file_wrote_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.db");
    let (here, there) = (Db::open(&file).unwrap(), Db::open(&file).unwrap());
    let (here, there) = (here.queue("q").unwrap(), there.queue("q").unwrap());
    let id = block_on(here.enqueue(task(1))).unwrap().id;
    let mut waiting: Waiting<'_> = Box::pin(here.wait_for(id, secs(60)));
    assert!(poll_once(&mut waiting).is_pending());
    assert!(block_on(there.cancel(id)).unwrap());
    assert_eq!(ended(waiting), StateKind::Cancelled);
}
