//! Cases that people met elsewhere, by their numbers in the project's list; each named by what must hold.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use aedb_queue::Clock as _;
use aedb_queue::{
    Backoff, ClaimRequest, ClaimedTask, Completion, Cursor, Db, DeadReason, Due, Effects, ErrorKind, Explanation,
    FencedCommit, Filter, HeartbeatOutcome, Json, LeaseLength, LeaseLoss, ManualClock, NewTask, Queue, RetentionLimits,
    Retry, StateKind, TaskId, TaskState, limits,
};
use futures::executor::block_on;

struct Shop {
    clock: ManualClock,
    db: Db,
    queue: Queue,
}

fn shop() -> Shop {
    let clock = ManualClock::default();
    let db = Db::builder().clock(clock.clone()).inline().memory().unwrap();
    let queue = db.queue("q").unwrap();
    Shop { clock, db, queue }
}

fn task(n: u64) -> NewTask {
    NewTask::new("n", &n).unwrap()
}

impl Shop {
    fn enqueue(&self, task: NewTask) -> TaskId {
        block_on(self.queue.enqueue(task)).unwrap().id
    }

    fn claim(&self, max: usize) -> Vec<ClaimedTask> {
        block_on(self.queue.claim(ClaimRequest::new("w", LeaseLength::secs(30)).max(max))).unwrap()
    }

    fn complete(&self, task: &ClaimedTask) -> FencedCommit {
        block_on(self.queue.complete(task, Completion::new())).unwrap()
    }

    fn pass(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
    }

    fn state(&self, id: TaskId) -> TaskState {
        block_on(self.queue.get(id)).unwrap().unwrap().state
    }
}

/// Every scenario must leave index, counts and records in step.
impl Drop for Shop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let report = block_on(self.queue.check()).unwrap();
            assert!(report.is_clean(), "{:?}", report.problems);
        }
    }
}

#[test]
fn c01_c22_twenty_thousand_due_tasks_and_lost_leases_are_each_served_exactly_once() {
    let shop = shop();
    for _ in 0..2 {
        let batch = (0..10_000).map(|n| task(n).delay(Duration::from_secs(1))).collect();
        block_on(shop.queue.enqueue_batch(batch)).unwrap();
    }
    assert!(shop.claim(1).is_empty());
    shop.pass(1);
    let first: BTreeSet<_> = [shop.claim(10_000), shop.claim(10_000)].concat().iter().map(|task| task.id).collect();
    assert_eq!(first.len(), 20_000);
    shop.pass(31);
    let again = [shop.claim(10_000), shop.claim(10_000)].concat();
    assert_eq!(again.iter().map(|task| task.id).collect::<BTreeSet<_>>(), first);
    assert!(again.iter().all(|task| task.counters.lost_leases == 1 && task.counters.failures == 0));
}

#[test]
fn c03_c13_c16_an_owner_that_finished_is_not_reclaimed_and_only_one_of_many_wins() {
    let shop = shop();
    let id = shop.enqueue(task(1));
    let a = shop.claim(1).remove(0);
    shop.pass(31);
    assert!(shop.complete(&a).is_applied(), "nobody took it over, so the late completion counts");
    assert!(shop.claim(1).is_empty());
    assert!(!block_on(shop.queue.cancel(id)).unwrap());
    assert!(!block_on(shop.queue.fail(&a, "late")).unwrap().is_applied());
    assert_eq!(shop.state(id).kind(), StateKind::Done);
}

#[test]
fn c09_a_delayed_task_is_never_early_and_claimed_once() {
    let shop = shop();
    shop.enqueue(task(1).delay(Duration::from_secs(7200)));
    for _ in 0..7199 {
        shop.pass(1);
        assert!(shop.claim(1).is_empty());
    }
    shop.pass(1);
    let claimed = shop.claim(10);
    assert_eq!((claimed.len(), claimed[0].counters.attempts), (1, 1));
}

#[test]
fn c14_empty_names_are_refused_before_any_write() {
    let shop = shop();
    assert_eq!(shop.db.queue("").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(shop.db.lease("").unwrap_err().kind(), ErrorKind::Invalid);
    let refused = |result: aedb_queue::Result<_>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    refused(block_on(shop.queue.enqueue(NewTask::new("", &1).unwrap())));
    refused(block_on(shop.queue.enqueue(task(1).idempotency_key(""))));
    refused(block_on(shop.queue.enqueue(task(1).max_attempts(0))));
    refused(block_on(shop.queue.enqueue_with(task(1), Effects::new().put("\0aedb:queue:x", "y"))));
    refused(block_on(shop.queue.enqueue_with(task(1), Effects::new().enqueue("", task(2)))));
    assert!(block_on(shop.queue.claim(ClaimRequest::new("", LeaseLength::secs(30)))).is_err());
    assert_eq!(block_on(shop.queue.stats()).unwrap().ready, 0);
}

#[test]
fn c17_a_hundred_threads_with_one_key_make_one_task() {
    let db = Db::memory().unwrap();
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let queue = db.queue("q").unwrap();
            std::thread::spawn(move || block_on(queue.enqueue(task(1).idempotency_key("k"))).unwrap())
        })
        .collect();
    let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| !outcome.deduplicated).count(), 1);
    assert_eq!(outcomes.iter().map(|outcome| outcome.id).collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn c19_c20_a_lost_worker_costs_no_attempt_but_a_task_that_kills_ten_is_parked() {
    let shop = shop();
    let id = shop.enqueue(task(1).max_attempts(1));
    for lost in 0..10 {
        assert_eq!(shop.claim(1)[0].counters.lost_leases, lost);
        shop.pass(31);
    }
    assert!(shop.claim(1).is_empty());
    assert!(matches!(shop.state(id), TaskState::Dead { reason: DeadReason::LeasesLost, .. }));
    assert_eq!(block_on(shop.queue.get(id)).unwrap().unwrap().counters.failures, 0);
}

#[test]
fn c24_a_last_lease_that_runs_out_is_settled_by_one_sweep() {
    let shop = shop();
    let id = shop.enqueue(task(1).max_lost_leases(1));
    shop.claim(1);
    shop.pass(31);
    let report = block_on(shop.queue.sweep(RetentionLimits::default())).unwrap();
    assert_eq!((report.reclaimed, report.more), (1, false));
    assert!(matches!(shop.state(id), TaskState::Dead { .. }));
}

#[test]
fn c34_a_task_that_failed_keeps_its_place() {
    let shop = shop();
    let ids = [1, 2, 3].map(|n| shop.enqueue(task(n).backoff(Backoff::none())));
    let a = shop.claim(1).remove(0);
    let _ = block_on(shop.queue.fail(&a, "once")).unwrap();
    assert_eq!(shop.claim(3).iter().map(|task| task.id).collect::<Vec<_>>(), ids);
}

#[test]
fn c35_c36_the_highest_priority_of_all_due_tasks_comes_first_over_the_whole_range() {
    let shop = shop();
    let edges = [0, 1, 1 << 31, (1 << 63) - 1, 1 << 63, u64::MAX];
    for (n, priority) in (0..1_000).map(|n| (n, n * 7 % 1_000)).chain(edges.map(|edge| (edge, edge))) {
        let delay = Duration::from_secs(n % 5);
        let name = ["a", "b", "c"][usize::try_from(n % 3).unwrap()];
        shop.enqueue(NewTask::new(name, &n).unwrap().priority(priority).delay(delay));
    }
    shop.enqueue(task(1).delay(Duration::MAX).priority(u64::MAX));
    shop.pass(5);
    let served: Vec<_> = (0..1_006).map(|_| shop.claim(1)[0].priority).collect();
    assert!(served.is_sorted_by(|a, b| a >= b));
    assert!(shop.claim(1).is_empty(), "a delay without end never ends");
}

#[test]
fn c48_c49_c58_a_key_lives_until_its_window_after_the_end_whatever_the_end() {
    let window = Duration::from_secs(60);
    for end in ["complete", "dead", "cancel"] {
        let shop = shop();
        let new = || {
            task(1).idempotency_key_for("k", window).keep_done(Duration::from_secs(5)).keep_dead(Duration::from_secs(5))
        };
        let id = shop.enqueue(new());
        shop.pass(1_000_000);
        assert!(block_on(shop.queue.enqueue(new())).unwrap().deduplicated, "unfinished");
        let claimed = shop.claim(1).remove(0);
        match end {
            "complete" => assert!(shop.complete(&claimed).is_applied()),
            "dead" => assert!(block_on(shop.queue.fail_with(&claimed, "x", Retry::Fatal)).unwrap().is_applied()),
            _ => assert!(block_on(shop.queue.cancel(id)).unwrap()),
        }
        shop.pass(59);
        assert_eq!(block_on(shop.queue.sweep(RetentionLimits::default())).unwrap().pruned, 1, "{end}");
        assert!(block_on(shop.queue.get(id)).unwrap().is_none());
        let other = NewTask::new("n", &"other").unwrap().idempotency_key_for("k", window);
        let outcome = block_on(shop.queue.enqueue(other)).unwrap();
        assert_eq!((outcome.id, outcome.deduplicated, outcome.differs), (id, true, true), "{end}");
        shop.pass(1);
        assert_eq!(block_on(shop.queue.sweep(RetentionLimits::default())).unwrap().keys_expired, 1, "{end}");
        assert!(!block_on(shop.queue.enqueue(new())).unwrap().deduplicated, "{end}");
    }
}

#[test]
fn c50_c53_c55_the_largest_of_everything_is_taken_claimed_failed_and_completed() {
    let shop = shop();
    let text = |bytes: usize| Json::of(&"x".repeat(bytes - 2)).unwrap();
    let over = NewTask::with_json("n", text(limits::PAYLOAD_BYTES + 1));
    let error = block_on(shop.queue.enqueue(over)).unwrap_err();
    let limit = error.limit().unwrap();
    assert_eq!((limit.max, limit.actual), (1 << 20, (1 << 20) + 1));
    let id = shop.enqueue(NewTask::with_json("n".repeat(255), text(limits::PAYLOAD_BYTES)).backoff(Backoff::none()));
    let claimed = shop.claim(1).remove(0);
    let beat =
        block_on(shop.queue.heartbeat(&claimed, LeaseLength::secs(30), Some(text(limits::PROGRESS_BYTES)))).unwrap();
    assert!(matches!(beat, HeartbeatOutcome::Extended(_)));
    assert!(block_on(shop.queue.fail(&claimed, "\0🐓".repeat(400_000))).unwrap().is_applied());
    let again = shop.claim(1).remove(0);
    assert_eq!(again.payload, text(limits::PAYLOAD_BYTES));
    assert_eq!(again.progress, Some(text(limits::PROGRESS_BYTES)));
    let done = Completion::new().result(text(limits::RESULT_BYTES));
    assert!(block_on(shop.queue.complete(&again, done)).unwrap().is_applied());
    let record = block_on(shop.queue.get(id)).unwrap().unwrap();
    assert_eq!(record.result, Some(text(limits::RESULT_BYTES)));
    assert!(record.failures[0].error.ends_with("(cut)") && !record.failures[0].error.contains('\0'));
}

#[test]
fn c54_tasks_that_a_dropped_claim_had_are_given_back_uncharged() {
    let shop = shop();
    let mut waiting = Box::pin(
        shop.queue.claim(ClaimRequest::new("gone", LeaseLength::secs(30)).max(9).wait(Duration::from_secs(60))),
    );
    assert!(futures::FutureExt::now_or_never(waiting.as_mut()).is_none());
    shop.enqueue(task(1));
    drop(waiting);
    let claimed = shop.claim(9);
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].counters.attempts, claimed[0].counters.lost_leases), (1, 0));
}

#[test]
fn c56_c59_finished_records_are_removed_by_age_count_and_bytes_in_bounded_steps() {
    let shop = shop();
    for _ in 0..3 {
        block_on(shop.queue.enqueue_batch((0..1_000).map(task).collect())).unwrap();
        for claimed in shop.claim(1_000) {
            assert!(shop.complete(&claimed).is_applied());
        }
        shop.pass(1);
    }
    let sweep = |limits| block_on(shop.queue.sweep(limits)).unwrap();
    let by_count = RetentionLimits { records: 2_500, steps: 300, ..RetentionLimits::default() };
    assert_eq!((sweep(by_count).pruned, sweep(by_count).pruned, sweep(by_count).pruned), (300, 200, 0));
    let bytes = block_on(shop.queue.stats()).unwrap().finished_bytes;
    let by_bytes = RetentionLimits { bytes: bytes / 2, ..RetentionLimits::default() };
    let pruned = sweep(by_bytes).pruned;
    assert!((1_200..=1_300).contains(&pruned), "{pruned}");
    shop.pass(24 * 3600);
    assert_eq!(sweep(RetentionLimits::default()).pruned, 2_500 - pruned);
    let stats = block_on(shop.queue.stats()).unwrap();
    assert_eq!((stats.done, stats.finished_bytes), (0, 0));
}

#[test]
fn c63_a_late_heartbeat_changes_nothing_of_the_new_owners() {
    let shop = shop();
    let id = shop.enqueue(task(1));
    let a = shop.claim(1).remove(0);
    shop.pass(31);
    let b = shop.claim(1).remove(0);
    let beat = block_on(shop.queue.heartbeat(&a, LeaseLength::secs(3600), Some(Json::null()))).unwrap();
    assert_eq!(beat, HeartbeatOutcome::LeaseLost(LeaseLoss::TakenOver));
    let record = block_on(shop.queue.get(id)).unwrap().unwrap();
    assert!(matches!(record.state, TaskState::InFlight { deadline, .. } if deadline == b.deadline));
    assert_eq!(record.progress, None);
}

#[test]
fn c65_numbers_without_bound_are_refused_or_clamped() {
    let shop = shop();
    shop.enqueue(task(1));
    let claim = |request| block_on(shop.queue.claim(request)).unwrap_err().kind();
    assert_eq!(claim(ClaimRequest::new("w", LeaseLength::secs(30)).max(usize::MAX)), ErrorKind::TooLarge);
    assert_eq!(claim(ClaimRequest::new("w", LeaseLength::of(Duration::MAX))), ErrorKind::Invalid);
    assert_eq!(block_on(shop.queue.list(Filter::all().limit(usize::MAX))).unwrap().tasks.len(), 1);
    let many = vec![task(1); limits::BATCH + 1];
    assert_eq!(block_on(shop.queue.enqueue_batch(many)).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn an_enqueue_whose_assertion_fails_leaves_nothing_and_a_settle_fails_alone() {
    let shop = shop();
    let kv = shop.db.default_scope().kv();
    let taken = || Effects::new().put("a", "1").assert_absent("k").put("k", "1");
    block_on(shop.queue.enqueue_with(task(1), taken())).unwrap();
    let refused = block_on(shop.queue.enqueue_with(task(2), taken())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    shop.enqueue(task(3));
    let claimed = shop.claim(9);
    assert_eq!(claimed.len(), 2);
    let items = claimed
        .iter()
        .zip([taken(), Effects::new().put("b", "2")])
        .map(|(task, effects)| {
            aedb_queue::Settlement::new(task, aedb_queue::Decision::Complete(Completion::new().effects(effects)))
        })
        .collect();
    let answers = block_on(shop.queue.settle(items)).unwrap();
    assert!(answers[0].is_err() && answers[1].as_ref().unwrap().is_applied());
    assert_eq!(block_on(kv.get("b")).unwrap().as_deref(), Some(b"2".as_slice()));
    assert_eq!(shop.state(claimed[0].id).kind(), StateKind::InFlight);
}

fn waiting(ahead: u64) -> Explanation {
    Explanation::Waiting { ahead, unserved: None }
}

#[test]
fn explain_tells_each_reason_apart() {
    let shop = shop();
    let why = |id| block_on(shop.queue.explain(id)).unwrap();
    assert_eq!(why(TaskId::from_u64(1)), Explanation::Unknown);
    let first = shop.enqueue(task(1));
    let second = shop.enqueue(NewTask::new("other", &1).unwrap());
    let later = shop.enqueue(task(1).delay(Duration::from_secs(9)));
    assert_eq!((why(first), why(second)), (waiting(0), waiting(1)));
    assert!(matches!(why(later), Explanation::NotDue { after: None, .. }));
    block_on(shop.queue.pause()).unwrap();
    assert!(shop.claim(9).is_empty());
    assert!(matches!(why(first), Explanation::Paused { .. }));
    block_on(shop.queue.resume()).unwrap();
    let claimed = shop.claim(1).remove(0);
    assert!(matches!(why(first), Explanation::Leased { .. }));
    let _ = block_on(shop.queue.fail_with(&claimed, "boom \x1b[31m", Retry::Fatal)).unwrap();
    let sentence = why(first).to_string();
    assert!(sentence.contains("boom") && !sentence.contains('\x1b'), "{sentence}");
    assert!(block_on(shop.queue.cancel(later)).unwrap());
    assert!(matches!(why(later), Explanation::Cancelled { .. }));
    assert_eq!(block_on(shop.queue.retry_all(Filter::dead())).unwrap(), 1);
    assert!(block_on(shop.queue.delete(first)).unwrap());
    assert_eq!(why(first), Explanation::Unknown);
}

#[test]
fn pages_neither_skip_nor_repeat_tasks_that_stay_while_others_move() {
    let shop = shop();
    let ids: Vec<_> = (0..50).map(|n| shop.enqueue(task(n))).collect();
    let (mut seen, mut next) = (Vec::new(), None::<Cursor>);
    loop {
        let page = block_on(shop.queue.list(Filter::all().after(next.clone()).limit(7))).unwrap();
        seen.extend(page.tasks.iter().map(|task| task.id));
        for claimed in shop.claim(2) {
            let _ = block_on(shop.queue.snooze(&claimed, Due::After(Duration::from_secs(60)))).unwrap();
        }
        // A cursor may be kept as text.
        match page.next {
            Some(cursor) => next = Some(cursor.to_string().parse().unwrap()),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    for state in StateKind::ALL {
        let page = block_on(shop.queue.list(Filter::state(state))).unwrap();
        assert!(page.tasks.iter().all(|task| task.state.kind() == state));
    }
    assert!("zz".parse::<Cursor>().is_err());
}

#[test]
fn a_list_by_time_finds_what_was_enqueued_in_that_time_and_by_name() {
    let shop = shop();
    let mut marks = Vec::new();
    for n in 0..30 {
        marks.push(shop.clock.now());
        shop.enqueue(NewTask::new(if n % 3 == 0 { "fizz" } else { "n" }, &n).unwrap());
        shop.enqueue(task(n));
        shop.pass(1);
    }
    let found = |filter: Filter| block_on(shop.queue.list(filter)).unwrap().tasks.len();
    let hour = Filter::all().enqueued_from(marks[10]).enqueued_until(marks[20]);
    assert_eq!((found(hour.clone()), found(hour.name("fizz"))), (20, 3));
    assert_eq!(found(Filter::state(StateKind::Ready).enqueued_from(marks[29])), 2);
    assert_eq!(found(Filter::state(StateKind::Ready).name("fizz")), 10);
}
