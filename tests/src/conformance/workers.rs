//! Live workers: who is announced, and what explain says when none of them knows a name.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs, task};
use aedb_queue::{ErrorKind, Explanation, HeldLease, Json, LeaseLength, LeaseOutcome, LiveWorker, NewTask, TaskId};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    a_worker_is_live_from_its_announcement_until_that_runs_out_or_is_released,
    explain_says_nothing_of_workers_where_none_was_ever_announced,
    explain_says_when_no_live_worker_knows_the_name_of_a_ready_or_scheduled_task,
    a_note_of_another_form_is_an_empty_one,
    announcements_that_ended_a_day_ago_are_forgotten_and_their_tokens_still_grow,
    only_who_may_read_the_scope_may_see_its_workers,
];

const LENGTH: LeaseLength = LeaseLength::secs(60);

fn announce_with(shop: &Shop, identity: &str, note: Json) -> HeldLease {
    let lease = shop.db.lease(&format!("worker:{identity}")).unwrap();
    match block_on(lease.acquire_with(identity, LENGTH, note)).unwrap() {
        LeaseOutcome::Acquired(held) => held,
        LeaseOutcome::Held { .. } => panic!("{identity} is announced by another"),
    }
}

fn announce(shop: &Shop, identity: &str, queue: &str, name: &str) -> HeldLease {
    announce_with(shop, identity, LiveWorker::note("box", 7, &[queue], &[name, "more"]).unwrap())
}

fn live(shop: &Shop) -> Vec<String> {
    let workers = block_on(shop.db.default_scope().workers()).unwrap();
    workers.iter().map(|worker| worker.identity.to_string()).collect()
}

/// The name that explain says no live worker knows, and that it says so in its sentence and only then.
fn unserved(shop: &Shop, id: TaskId) -> Option<String> {
    let why = block_on(shop.queue.explain(id)).unwrap();
    let (Explanation::Waiting { unserved, .. } | Explanation::NotDue { unserved, .. }) = &why else { panic!("{why}") };
    assert_eq!(why.to_string().contains("No live worker knows the name"), unserved.is_some(), "{why}");
    unserved.as_ref().map(|name| name.to_string())
}

fn a_worker_is_live_from_its_announcement_until_that_runs_out_or_is_released() {
    let shop = Shop::new();
    let (a, _) = (announce(&shop, "a", "q", "n"), announce(&shop, "b", "q", "n"));
    let workers = block_on(shop.db.default_scope().workers()).unwrap();
    let first = &workers[0];
    assert_eq!((&*first.identity, &*first.host, first.pid, first.until), ("a", "box", 7, a.until));
    assert_eq!(
        (first.queues.as_slice(), first.names.as_slice()),
        (["q".into()].as_slice(), ["n".into(), "more".into()].as_slice())
    );
    assert_eq!(live(&shop), ["a", "b"]);
    shop.pass(secs(59));
    let lease = shop.db.lease("worker:a").unwrap();
    let _ = block_on(lease.renew(&a, LENGTH)).unwrap();
    shop.pass(secs(1));
    assert_eq!(live(&shop), ["a"]);
    block_on(lease.release(&a)).unwrap();
    assert_eq!(live(&shop), [""; 0]);
}

fn explain_says_nothing_of_workers_where_none_was_ever_announced() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    block_on(shop.db.lease("keeper").unwrap().acquire("w", LENGTH)).unwrap();
    assert_eq!(unserved(&shop, id), None);
    // Nor because of those of another scope.
    let other = shop.db.scope("default", "other").unwrap().lease("worker:x").unwrap();
    block_on(other.acquire("x", LENGTH)).unwrap();
    assert_eq!(unserved(&shop, id), None);
}

fn explain_says_when_no_live_worker_knows_the_name_of_a_ready_or_scheduled_task() {
    let shop = Shop::new();
    let (ready, later) = (shop.enqueue(task(1)), shop.enqueue(task(1).delay(secs(600))));
    let other = shop.enqueue(NewTask::new("other", &1).unwrap());
    announce(&shop, "elsewhere", "another queue", "n");
    assert_eq!((unserved(&shop, ready), unserved(&shop, later)), (Some("n".into()), Some("n".into())));
    announce(&shop, "here", "q", "n");
    assert_eq!((unserved(&shop, ready), unserved(&shop, later)), (None, None));
    assert_eq!(unserved(&shop, other), Some("other".into()));
    shop.pass(secs(60));
    assert_eq!((unserved(&shop, ready), unserved(&shop, later)), (Some("n".into()), Some("n".into())));
    announce(&shop, "here", "q", "other");
    assert_eq!((unserved(&shop, ready), unserved(&shop, other)), (Some("n".into()), None));
}

fn a_note_of_another_form_is_an_empty_one() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    for (identity, note) in [("a", "7"), ("b", r#"{"pid":-1,"queues":"q","names":[1,"n"],"host":null}"#)] {
        announce_with(&shop, identity, Json::parse(note).unwrap());
    }
    let workers = block_on(shop.db.default_scope().workers()).unwrap();
    assert_eq!((&*workers[0].host, workers[0].pid, workers[0].queues.len()), ("", 0, 0));
    assert_eq!((workers[1].queues.len(), workers[1].names.as_slice()), (0, ["n".to_owned()].as_slice()));
    assert_eq!(unserved(&shop, id), Some("n".into()));
}

fn announcements_that_ended_a_day_ago_are_forgotten_and_their_tokens_still_grow() {
    let shop = Shop::new();
    let id = shop.enqueue(task(1));
    let held: Vec<_> = (0..20).map(|n| announce(&shop, &format!("old {n}"), "q", "n")).collect();
    shop.pass(secs(60 + 24 * 3600));
    let count = || block_on(shop.db.default_scope().leases("worker:", None, 1_000)).unwrap().leases.len();
    assert_eq!((count(), unserved(&shop, id)), (20, Some("n".into())));
    announce(&shop, "new", "q", "n");
    assert_eq!(count(), 1);
    let again = announce(&shop, "old 7", "q", "n");
    assert!(again.token > held[7].token);
    let old = shop.db.lease("worker:old 7").unwrap();
    assert_eq!(block_on(old.renew(&held[7], LENGTH)).unwrap(), aedb_queue::RenewOutcome::Lost);
}

fn only_who_may_read_the_scope_may_see_its_workers() {
    let shop = Shop::new();
    let eve = shop.db.default_scope().as_caller("eve").unwrap();
    assert_eq!(block_on(eve.workers()).unwrap_err().kind(), ErrorKind::PermissionDenied);
}
