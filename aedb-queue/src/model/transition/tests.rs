//! Every cell of the table above the state machine.

mod amend;

use super::*;
use crate::model::json::Json;
use crate::model::task::{Body, Counters, Policy, StateKind, TaskId};

const NOW: Timestamp = Timestamp::from_micros(1_000_000);
const LEASE: Duration = Duration::from_secs(30);
const FLOOR: FencingToken = FencingToken::from_u64(0);

fn token(n: u64) -> FencingToken {
    FencingToken::from_u64(n)
}

fn at(secs: u64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}

fn task(state: TaskState) -> Task {
    Task {
        id: TaskId::from_u64(1),
        name: "n".into(),
        priority: 0,
        enqueued: Timestamp::default(),
        updated: Timestamp::default(),
        policy: Policy::default(),
        key: None,
        metadata: Vec::new(),
        counters: Counters { attempts: 1, deliveries: 1, ..Counters::default() },
        token: token(3),
        state,
        payload: Body::Inline(Json::null()),
        progress: Body::None,
        result: Body::None,
        failures: Vec::new(),
    }
}

fn in_flight(deadline: u64) -> Task {
    task(TaskState::InFlight { owner: "w".into(), deadline: at(deadline), claimed: NOW })
}

fn states() -> [Task; 6] {
    [
        task(TaskState::Scheduled { due: at(9) }),
        task(TaskState::Ready { since: NOW }),
        in_flight(30),
        task(TaskState::Done { at: NOW }),
        task(TaskState::Dead { at: NOW, reason: DeadReason::Fatal }),
        task(TaskState::Cancelled { at: NOW }),
    ]
}

fn fail(retry: Retry) -> Verdict {
    Verdict::Fail { error: "boom".into(), retry }
}

fn discard() -> Verdict {
    Verdict::Discard { reason: "not wanted".into() }
}

fn verdicts() -> [Verdict; 6] {
    [
        Verdict::Complete,
        fail(Retry::ByPolicy),
        Verdict::Snooze { until: at(99) },
        Verdict::Release,
        discard(),
        Verdict::Continue { until: at(99) },
    ]
}

#[test]
fn only_the_current_token_of_a_task_in_flight_settles_and_nothing_else_changes_anything() {
    for before in states() {
        for verdict in verdicts() {
            for shown in [2, 3, 4] {
                let mut after = before.clone();
                let answer = settle(&mut after, token(shown), &verdict, NOW);
                let current = shown == 3 && before.state.kind() == StateKind::InFlight;
                assert_eq!(answer.is_ok(), current, "{:?} {verdict:?} {shown}", before.state);
                if !current {
                    assert_eq!(after, before);
                }
                assert_eq!(after.token, before.token, "a token only changes when a task is claimed");
            }
        }
        let mut after = before.clone();
        let beat = heartbeat(&mut after, token(3), LEASE, NOW);
        assert_eq!(beat.is_ok(), before.state.kind() == StateKind::InFlight);
    }
}

#[test]
fn the_reason_of_a_loss_is_told_apart() {
    let [_, ready, running, done, _, cancelled] = states();
    assert_eq!(holds(&ready, token(3)), Err(LeaseLoss::TakenOver));
    assert_eq!(holds(&running, token(2)), Err(LeaseLoss::TakenOver));
    assert_eq!(holds(&done, token(3)), Err(LeaseLoss::AlreadySettled));
    assert_eq!(holds(&done, token(2)), Err(LeaseLoss::TakenOver));
    assert_eq!(holds(&cancelled, token(3)), Err(LeaseLoss::Cancelled));
}

#[test]
fn a_claim_takes_only_ready_tasks_and_its_token_grows_above_the_floor() {
    for mut task in states() {
        let ready = task.state.kind() == StateKind::Ready;
        assert_eq!(claim(&mut task, &"w".into(), LEASE, FLOOR, NOW), ready);
        assert_eq!(task.token, token(if ready { 4 } else { 3 }));
    }
    let mut task = task(TaskState::Ready { since: NOW });
    assert!(claim(&mut task, &"w".into(), LEASE, token(1_000), NOW));
    assert_eq!(task.token, token(1_000));
    assert_eq!((task.counters.attempts, task.counters.deliveries), (2, 2));
}

#[test]
fn c21_a_ready_task_whose_budget_is_spent_dies_instead_of_running() {
    let mut task = task(TaskState::Ready { since: NOW });
    task.counters = Counters { attempts: u32::MAX, failures: u32::MAX, deliveries: u32::MAX, ..task.counters };
    assert!(!claim(&mut task, &"w".into(), LEASE, FLOOR, NOW));
    assert!(matches!(task.state, TaskState::Dead { reason: DeadReason::AttemptsSpent, .. }));
}

#[test]
fn a_failure_is_charged_and_waits_or_dies() {
    let mut task = in_flight(30);
    task.policy.max_attempts = 2;
    assert!(settle(&mut task, token(3), &fail(Retry::ByPolicy), NOW).is_ok());
    assert!(matches!(task.state, TaskState::Scheduled { due } if due > NOW));
    assert_eq!((task.counters.failures, task.counters.attempts), (1, 1));
    task.state = TaskState::Ready { since: NOW };
    assert!(claim(&mut task, &"w".into(), LEASE, FLOOR, NOW));
    assert!(settle(&mut task, token(4), &fail(Retry::At(at(500))), NOW).is_ok());
    assert!(matches!(task.state, TaskState::Dead { reason: DeadReason::AttemptsSpent, .. }));
    assert_eq!(task.failures.iter().map(|f| f.attempt).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_failure_can_name_its_instant_be_fatal_or_be_tried_again_at_once() {
    let cases = [
        (Retry::At(at(77)), StateKind::Scheduled),
        (Retry::At(Timestamp::default()), StateKind::Ready),
        (Retry::Fatal, StateKind::Dead),
    ];
    for (retry, state) in cases {
        let mut task = in_flight(30);
        assert!(settle(&mut task, token(3), &fail(retry), NOW).is_ok());
        assert_eq!((task.state.kind(), task.counters.failures), (state, 1));
    }
    let mut task = in_flight(30);
    task.policy.backoff = crate::Backoff::none();
    assert!(settle(&mut task, token(3), &fail(Retry::ByPolicy), NOW).is_ok());
    assert_eq!(task.state.kind(), StateKind::Ready);
}

#[test]
fn a_record_remembers_the_last_ten_failures() {
    let mut task = in_flight(30);
    task.policy.max_attempts = u32::MAX;
    for n in 1..=25 {
        task.state = TaskState::InFlight { owner: "w".into(), deadline: at(30), claimed: NOW };
        task.counters.attempts = n;
        assert!(settle(&mut task, token(3), &fail(Retry::ByPolicy), NOW).is_ok());
    }
    assert_eq!(task.failures.iter().map(|f| f.attempt).collect::<Vec<_>>(), (16..=25).collect::<Vec<_>>());
}

#[test]
fn c43_snooze_release_and_a_lost_lease_charge_nothing() {
    for verdict in [Verdict::Snooze { until: at(99) }, Verdict::Release] {
        let mut task = in_flight(30);
        assert!(settle(&mut task, token(3), &verdict, NOW).is_ok());
        assert_eq!((task.counters.attempts, task.counters.failures, task.counters.deliveries), (0, 0, 1));
    }
    let mut task = in_flight(30);
    assert!(reclaim(&mut task, at(30)));
    assert!(matches!(task.state, TaskState::Ready { .. }));
    assert_eq!((task.counters.attempts, task.counters.failures, task.counters.lost_leases), (0, 0, 1));
}

#[test]
fn a_reclaim_takes_only_what_ran_out_and_parks_a_task_that_keeps_killing_its_worker() {
    for mut task in states() {
        let before = task.clone();
        assert!(!reclaim(&mut task, at(29)));
        assert_eq!(task, before);
    }
    let mut task = in_flight(30);
    task.policy.max_lost_leases = 2;
    assert!(reclaim(&mut task, at(30)));
    assert!(claim(&mut task, &"w".into(), LEASE, FLOOR, at(30)));
    assert!(reclaim(&mut task, at(60)));
    assert!(matches!(task.state, TaskState::Dead { reason: DeadReason::LeasesLost, .. }));
}

#[test]
fn a_heartbeat_never_shortens_a_lease() {
    let mut task = in_flight(500);
    assert_eq!(heartbeat(&mut task, token(3), LEASE, NOW), Ok(at(500)));
    assert_eq!(heartbeat(&mut task, token(3), LEASE, at(490)), Ok(at(520)));
}

#[test]
fn a_promotion_waits_for_the_instant() {
    let mut task = task(TaskState::Scheduled { due: at(9) });
    assert!(!promote(&mut task, Timestamp::from_micros(at(9).as_micros() - 1)));
    assert!(promote(&mut task, at(9)));
    assert_eq!(task.state, TaskState::Ready { since: at(9) });
}

#[test]
fn cancel_ends_what_lives_and_retry_wakes_what_ended() {
    for (mut task, (cancels, retries)) in states().into_iter().zip([
        (true, true),
        (true, false),
        (true, false),
        (false, false),
        (false, true),
        (false, true),
    ]) {
        let mut other = task.clone();
        assert_eq!(cancel(&mut task, NOW), cancels, "{:?}", task.state);
        other.counters.failures = 7;
        assert_eq!(retry(&mut other, NOW), retries, "{:?}", other.state);
        assert_eq!(other.counters.failures, if retries { 0 } else { 7 });
        assert_eq!(other.token, token(3));
    }
    let mut damaged = task(TaskState::Dead { at: NOW, reason: DeadReason::Damaged });
    assert!(!retry(&mut damaged, NOW));
}

#[test]
fn a_discard_cancels_keeps_its_reason_and_charges_no_failure() {
    let mut task = in_flight(30);
    assert_eq!(settle(&mut task, token(3), &discard(), NOW), Ok(()));
    assert_eq!(
        (&task.state, task.counters.failures, task.counters.attempts),
        (&TaskState::Cancelled { at: NOW }, 0, 1)
    );
    let said = task.discarded().map(|said| (said.at, said.attempt, &*said.error));
    assert_eq!(said, Some((NOW, 1, "not wanted")));
    assert_eq!(task.expires(), Some(NOW.saturating_add(task.policy.keep_done)));
    assert_eq!(settle(&mut task, token(3), &discard(), at(2)), Err(LeaseLoss::AlreadySettled));
    assert_eq!(settle(&mut task, token(2), &discard(), at(2)), Err(LeaseLoss::Cancelled));
}

#[test]
fn a_cancel_by_hand_is_no_discard_whatever_failed_before() {
    let mut task = in_flight(30);
    task.failures.push(Failure { at: NOW, attempt: 1, error: "boom".into() });
    task.counters.attempts = 2;
    assert!(cancel(&mut task, NOW));
    assert_eq!((task.discarded(), holds(&task, token(3))), (None, Err(LeaseLoss::Cancelled)));
}

#[test]
fn a_continued_task_waits_under_its_token_with_fresh_budgets() {
    for (until, state) in [(at(0), StateKind::Ready), (at(99), StateKind::Scheduled)] {
        let mut task = in_flight(30);
        (task.counters.failures, task.counters.lost_leases, task.counters.snoozes) = (19, 9, 5);
        assert!(settle(&mut task, token(3), &Verdict::Continue { until }, NOW).is_ok());
        assert_eq!((task.state.kind(), task.token), (state, token(3)));
        let c = task.counters;
        assert_eq!((c.failures, c.lost_leases, c.attempts, c.deliveries, c.snoozes), (0, 0, 1, 1, 5));
    }
}
