//! The row of amendments, and counters at their end.

use super::*;

#[test]
fn an_amendment_changes_the_terms_of_what_lives_and_nothing_else() {
    let terms = Terms { priority: Some(9), max_attempts: Some(3), backoff: Some(Backoff::none()) };
    for before in states() {
        let (mut after, mut untouched) = (before.clone(), before.clone());
        let lives = before.state.finished().is_none();
        assert_eq!((amend(&mut after, &terms, NOW), amend(&mut untouched, &Terms::default(), NOW)), (lives, lives));
        let mut expected = before.clone();
        if lives {
            expected.updated = NOW;
            assert_eq!(untouched, expected);
            expected.priority = 9;
            (expected.policy.max_attempts, expected.policy.backoff) = (3, Backoff::none());
        }
        assert_eq!(after, expected);
    }
}

#[test]
fn an_amendment_below_the_failures_kills_what_waits_and_lets_the_next_failure_kill_what_runs() {
    let terms = Terms { max_attempts: Some(2), ..Terms::default() };
    let [scheduled, ready, running, ..] = states();
    for mut task in [scheduled, ready] {
        task.counters.failures = 2;
        assert!(amend(&mut task, &terms, NOW));
        assert_eq!(task.state, TaskState::Dead { at: NOW, reason: DeadReason::AttemptsSpent });
    }
    let mut task = running;
    task.counters.failures = 5;
    assert!(amend(&mut task, &terms, NOW));
    assert_eq!(holds(&task, token(3)), Ok(()));
    assert!(settle(&mut task, token(3), &fail(Retry::At(at(9))), NOW).is_ok());
    assert!(matches!(task.state, TaskState::Dead { reason: DeadReason::AttemptsSpent, .. }));
}

#[test]
fn c21_counters_at_their_end_stay_there_and_still_decide() {
    let (max, unbounded) = (u32::MAX, Policy { max_attempts: u32::MAX, ..Policy::default() });
    let full = Counters { attempts: max, failures: max - 1, deliveries: max, lost_leases: max, snoozes: max };
    let with = |state: TaskState| Task { counters: full, policy: unbounded.clone(), ..task(state) };
    let mut task = with(TaskState::Ready { since: NOW });
    assert!(claim(&mut task, &"w".into(), LEASE, FLOOR, NOW));
    assert_eq!(task.counters, full);
    assert!(settle(&mut task, token(4), &Verdict::Snooze { until: NOW }, NOW).is_ok());
    assert_eq!((task.counters.snoozes, task.counters.attempts), (max, max - 1));
    let mut lost = with(TaskState::InFlight { owner: "w".into(), deadline: at(30), claimed: NOW });
    let mut failed = lost.clone();
    assert!(reclaim(&mut lost, at(30)));
    assert!(matches!((lost.counters.lost_leases, lost.state), (max_lost, TaskState::Dead { .. }) if max_lost == max));
    assert!(settle(&mut failed, token(3), &fail(Retry::ByPolicy), NOW).is_ok());
    assert_eq!((failed.counters.failures, failed.state.kind()), (max, StateKind::Dead));
    let mut spent = with(TaskState::Ready { since: NOW });
    spent.counters.failures = max;
    assert!(!claim(&mut spent, &"w".into(), LEASE, FLOOR, NOW));
    assert_eq!((spent.counters.failures, spent.state.kind()), (max, StateKind::Dead));
}
