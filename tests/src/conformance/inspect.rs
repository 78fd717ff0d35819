//! Looking: why a task is not running, pages that stay good while tasks move, counts, pause and resume.

use std::collections::BTreeSet;

use crate::conformance::{Rule, rules};
use crate::{Dice, Shop, secs, seeds, task};
use aedb_queue::{
    Backoff, Cursor, DeadReason, Explanation, Filter, NewTask, RetentionLimits, Retry, StateKind, TaskId,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    explain_tells_each_reason_apart,
    a_paused_queue_serves_nothing_lets_what_runs_go_on_and_serves_again_when_resumed,
    a_pause_of_one_queue_leaves_the_others_alone_and_holds_before_the_first_task,
    counts_and_ages_are_those_of_the_records,
    pages_over_all_records_see_each_task_that_stays_exactly_once_while_tasks_move,
    pages_of_a_state_see_each_task_that_stays_in_it_exactly_once_while_others_leave,
    a_filter_by_state_name_and_time_finds_exactly_those,
    a_record_says_all_that_was_given_and_what_happened,
    a_check_of_a_sound_queue_is_clean_and_repair_changes_nothing,
];

fn explain(shop: &Shop, id: TaskId) -> Explanation {
    let explanation = block_on(shop.queue.explain(id)).unwrap();
    let text = explanation.to_string();
    assert!(text.ends_with('.') && !text.contains(char::is_control), "{text:?}");
    explanation
}

fn waiting(ahead: u64) -> Explanation {
    Explanation::Waiting { ahead, unserved: None }
}

fn explain_tells_each_reason_apart() {
    let shop = Shop::new();
    let now = shop.now();
    assert_eq!(explain(&shop, TaskId::from_u64(7)), Explanation::Unknown);

    let due = now.saturating_add(secs(60));
    let delayed = shop.enqueue(task(0).delay(secs(60)));
    assert_eq!(explain(&shop, delayed), Explanation::NotDue { due, after: None, unserved: None });

    let ids: Vec<_> = (0..3).map(|n| shop.enqueue(task(n))).collect();
    assert_eq!(explain(&shop, ids[0]), waiting(0));
    assert_eq!(explain(&shop, ids[2]), waiting(2));
    let other = shop.enqueue(NewTask::new("other", &1).unwrap().priority(5));
    assert_eq!((explain(&shop, other), explain(&shop, ids[2])), { (waiting(0), waiting(3)) });
    block_on(shop.queue.pause()).unwrap();
    assert_eq!(explain(&shop, other), Explanation::Paused { since: now });
    block_on(shop.queue.resume()).unwrap();

    let claims = shop.claim(9);
    assert_eq!(explain(&shop, other), Explanation::Leased { owner: "w".into(), until: claims[0].deadline });
    assert!(shop.complete(&claims[0]).is_applied());
    assert_eq!(explain(&shop, other), Explanation::Done { at: now });

    assert!(block_on(shop.queue.fail(&claims[1], "\u{1b}[31mred\r\n")).unwrap().is_applied());
    let Explanation::NotDue { due, after: Some(last), .. } = explain(&shop, ids[0]) else { panic!() };
    assert!(due > now && last.attempt == 1);
    assert!(block_on(shop.queue.fail_with(&claims[2], "bad", Retry::Fatal)).unwrap().is_applied());
    let Explanation::Dead { at, reason, last: Some(last) } = explain(&shop, ids[1]) else { panic!() };
    assert_eq!((at, reason, &*last.error), (now, DeadReason::Fatal, "bad"));
    assert!(block_on(shop.queue.cancel(ids[2])).unwrap());
    assert_eq!(explain(&shop, ids[2]), Explanation::Cancelled { at: now });
}

fn a_paused_queue_serves_nothing_lets_what_runs_go_on_and_serves_again_when_resumed() {
    let shop = Shop::new();
    let ids: Vec<_> = (0..3).map(|n| shop.enqueue(task(n))).collect();
    let running = shop.claim_one();
    block_on(shop.queue.pause()).unwrap();
    let since = shop.now();
    shop.pass(secs(10));
    block_on(shop.queue.pause()).unwrap();
    assert_eq!(block_on(shop.queue.stats()).unwrap().paused, Some(since), "a second pause changes nothing");
    assert!(shop.claim(9).is_empty());
    let beat = block_on(shop.queue.heartbeat(&running, aedb_queue::LeaseLength::secs(30), None)).unwrap();
    assert!(matches!(beat, aedb_queue::HeartbeatOutcome::Extended(_)));
    assert!(shop.complete(&running).is_applied());
    shop.enqueue(task(3));
    block_on(shop.queue.resume()).unwrap();
    assert_eq!(block_on(shop.queue.stats()).unwrap().paused, None);
    assert_eq!(shop.claim(9).iter().map(|claim| claim.id).collect::<Vec<_>>()[..2], ids[1..]);
}

fn a_pause_of_one_queue_leaves_the_others_alone_and_holds_before_the_first_task() {
    let shop = Shop::new();
    block_on(shop.queue.pause()).unwrap();
    shop.enqueue(task(1));
    assert!(shop.claim(9).is_empty());
    let other = shop.db.queue("other").unwrap();
    block_on(other.enqueue(task(1))).unwrap();
    assert_eq!(block_on(other.claim(crate::claims("w"))).unwrap().len(), 1);
}

fn counts_and_ages_are_those_of_the_records() {
    let shop = Shop::new();
    let start = shop.now();
    shop.enqueue(task(1).priority(1));
    shop.pass(secs(5));
    shop.enqueue(task(2).priority(9));
    shop.enqueue(task(3).delay(secs(50)));
    let stats = block_on(shop.queue.stats()).unwrap();
    assert_eq!((stats.ready, stats.scheduled, stats.oldest_ready), (2, 1, Some(start)));
    assert_eq!(stats.next_due, Some(shop.now().saturating_add(secs(50))));
    shop.claim(2);
    let stats = block_on(shop.queue.stats()).unwrap();
    assert_eq!((stats.in_flight, stats.oldest_ready), (2, None));
    assert_eq!(stats.next_deadline, Some(shop.now().saturating_add(secs(30))));
}

/// Moves some tasks on, so that they leave one index and enter another.
fn stir(shop: &Shop, dice: &mut Dice) {
    match dice.roll(5) {
        0 => {
            shop.enqueue(task(dice.roll(9)).priority(dice.roll(9)).backoff(Backoff::none()).delay(secs(dice.roll(2))));
        }
        1 => {
            shop.claim(dice.roll(4) as usize);
        }
        2 => {
            if let Some(claim) = shop.claim(1).pop() {
                let _ = shop.complete(&claim);
            }
        }
        3 => {
            if let Some(claim) = shop.claim(1).pop() {
                let _ = shop.fail(&claim);
            }
        }
        _ => shop.pass(secs(dice.roll(20))),
    }
}

fn pages_over_all_records_see_each_task_that_stays_exactly_once_while_tasks_move() {
    seeds(30, |seed| {
        let (shop, mut dice) = (Shop::new(), Dice::new(seed));
        let there: BTreeSet<_> = (0..40).map(|n| shop.enqueue(task(n).backoff(Backoff::none()))).collect();
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = block_on(shop.queue.list(Filter::all().limit(7).after(cursor))).unwrap();
            seen.extend(page.tasks.iter().map(|task| task.id));
            stir(&shop, &mut dice);
            // A cursor survives being written down.
            let Some(next) = page.next else { break };
            cursor = Some(next.to_string().parse::<Cursor>().unwrap());
        }
        let once: BTreeSet<_> = seen.iter().copied().collect();
        assert_eq!(once.len(), seen.len(), "none twice");
        assert!(there.is_subset(&once), "none left out");
    });
}

fn pages_of_a_state_see_each_task_that_stays_in_it_exactly_once_while_others_leave() {
    let shop = Shop::new();
    let ids: Vec<_> = (0..60).map(|n| shop.enqueue(task(n).priority(n % 3))).collect();
    let (mut seen, mut cursor, mut taken) = (Vec::new(), None, BTreeSet::new());
    loop {
        let page = block_on(shop.queue.list(Filter::state(StateKind::Ready).limit(8).after(cursor))).unwrap();
        seen.extend(page.tasks.iter().map(|task| task.id));
        taken.extend(shop.claim(3).iter().map(|claim| claim.id));
        let Some(next) = page.next else { break };
        cursor = Some(next);
    }
    let once: BTreeSet<_> = seen.iter().copied().collect();
    assert_eq!(once.len(), seen.len());
    assert!(ids.iter().all(|id| once.contains(id) || taken.contains(id)));
}

fn a_filter_by_state_name_and_time_finds_exactly_those() {
    let shop = Shop::new();
    let start = shop.now();
    for n in 0..20 {
        shop.enqueue(NewTask::new(if n % 2 == 0 { "even" } else { "odd" }, &n).unwrap());
        shop.pass(secs(1));
    }
    for claim in shop.claim(6) {
        assert!(block_on(shop.queue.fail_with(&claim, "no", Retry::Fatal)).unwrap().is_applied());
    }
    let count = |filter: Filter| block_on(shop.queue.list(filter)).unwrap().tasks.len();
    assert_eq!(count(Filter::all()), 20);
    assert_eq!((count(Filter::dead()), count(Filter::dead().name("odd"))), (6, 3));
    assert_eq!(count(Filter::state(StateKind::Ready).name("even")), 7);
    let between = |filter: Filter| {
        filter.enqueued_from(start.saturating_add(secs(5))).enqueued_until(start.saturating_add(secs(15)))
    };
    assert_eq!(count(between(Filter::all())), 10);
    assert_eq!((count(between(Filter::dead())), count(between(Filter::all().name("odd")))), (1, 5));
    assert_eq!(count(Filter::all().name("none")), 0);
    assert_eq!(count(Filter::state(StateKind::InFlight)), 0);
}

fn a_record_says_all_that_was_given_and_what_happened() {
    let shop = Shop::new();
    let new = task(7).priority(3).max_attempts(4).idempotency_key("k").metadata("tenant", "ada").metadata("a", "");
    let id = shop.enqueue(new);
    let record = shop.record(id);
    assert_eq!((record.id, &*record.queue, &*record.name, record.payload.as_str()), (id, "q", "n", "7"));
    assert_eq!((record.priority, record.max_attempts, record.enqueued), (3, 4, shop.now()));
    assert_eq!(record.idempotency_key.as_deref(), Some("k"));
    let claim = shop.claim_one();
    assert_eq!(claim.metadata, record.metadata);
    assert_eq!(claim.metadata.iter().map(|(k, v)| (&**k, &**v)).collect::<Vec<_>>(), [("tenant", "ada"), ("a", "")]);
}

fn a_check_of_a_sound_queue_is_clean_and_repair_changes_nothing() {
    seeds(20, |seed| {
        let (shop, mut dice) = (Shop::new(), Dice::new(seed));
        for _ in 0..60 {
            stir(&shop, &mut dice);
        }
        block_on(shop.queue.sweep(RetentionLimits::default())).unwrap();
        let before = block_on(shop.queue.list(Filter::all())).unwrap().tasks;
        let report = block_on(shop.queue.repair()).unwrap();
        assert!(report.is_clean() && report.repaired == 0 && report.records == before.len() as u64);
        assert_eq!(block_on(shop.queue.list(Filter::all())).unwrap().tasks, before);
    });
}
