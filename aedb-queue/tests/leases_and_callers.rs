//! Leases, cell by cell of the table in `kv/lease.rs`, and what callers may do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use aedb_queue::{
    Access, ClaimRequest, Db, Effects, ErrorKind, GrantTarget, HeldLease, KeyRange, Lease, LeaseLength, LeaseOutcome,
    ManualClock, NewTask, RenewOutcome,
};
use futures::executor::block_on;

const LENGTH: LeaseLength = LeaseLength::secs(30);

fn acquire(lease: &Lease, owner: &str) -> Option<HeldLease> {
    match block_on(lease.acquire(owner, LENGTH)).unwrap() {
        LeaseOutcome::Acquired(held) => Some(held),
        LeaseOutcome::Held { .. } => None,
    }
}

fn commits(lease: &Lease, held: &HeldLease) -> bool {
    block_on(lease.guarded_commit(held, Effects::new().put("k", held.token.to_string()))).unwrap().is_applied()
}

fn renews(lease: &Lease, held: &HeldLease) -> bool {
    matches!(block_on(lease.renew(held, LENGTH)).unwrap(), RenewOutcome::Renewed(_))
}

fn setting() -> (ManualClock, Db, Lease) {
    let clock = ManualClock::default();
    let db = Db::builder().clock(clock.clone()).inline().memory().unwrap();
    let lease = db.lease("leader").unwrap();
    (clock, db, lease)
}

#[test]
fn only_the_holder_of_the_current_token_renews_commits_and_releases() {
    let (clock, db, lease) = setting();
    let a = acquire(&lease, "a").unwrap();
    assert!(acquire(&lease, "b").is_none());
    assert!(commits(&lease, &a) && renews(&lease, &a));
    let again = acquire(&lease, "a").unwrap();
    assert!(again.token > a.token && !commits(&lease, &a) && !renews(&lease, &a));
    block_on(lease.release(&a)).unwrap();
    assert!(commits(&lease, &again), "a stale release does nothing");
    clock.advance(Duration::from_secs(30));
    assert!(!commits(&lease, &again) && !renews(&lease, &again), "it ran out at this instant");
    let b = acquire(&lease, "b").unwrap();
    assert!(b.token > again.token && commits(&lease, &b) && !commits(&lease, &again));
    assert_eq!(block_on(db.default_scope().kv().get("k")).unwrap(), Some(b.token.to_string().into_bytes()));
}

#[test]
fn a_released_lease_cannot_be_renewed_or_used_and_its_token_goes_on_growing() {
    let (_clock, _db, lease) = setting();
    let a = acquire(&lease, "a").unwrap();
    block_on(lease.release(&a)).unwrap();
    block_on(lease.release(&a)).unwrap();
    assert!(!renews(&lease, &a) && !commits(&lease, &a));
    let status = block_on(lease.status()).unwrap().unwrap();
    assert_eq!((status.owner, status.token), (None, a.token));
    assert!(acquire(&lease, "b").unwrap().token > a.token);
}

#[test]
fn a_renewal_never_shortens_a_lease() {
    let (_clock, _db, lease) = setting();
    let LeaseOutcome::Acquired(long) = block_on(lease.acquire("a", LeaseLength::secs(3600))).unwrap() else {
        panic!("it was free")
    };
    assert_eq!(block_on(lease.renew(&long, LENGTH)).unwrap(), RenewOutcome::Renewed(long.until));
}

#[test]
fn a_guarded_commit_whose_assertion_fails_applies_nothing() {
    let (_clock, db, lease) = setting();
    let held = acquire(&lease, "a").unwrap();
    let effects = Effects::new().put("x", "1").enqueue("q", NewTask::new("n", &1).unwrap()).assert_present("nothing");
    assert_eq!(block_on(lease.guarded_commit(&held, effects)).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(block_on(db.default_scope().kv().get("x")).unwrap(), None);
    assert!(block_on(db.default_scope().queues()).unwrap().is_empty());
}

#[test]
fn a_caller_can_do_what_its_grants_say_and_nothing_more() {
    let db = Db::builder().inline().callers_required().memory().unwrap();
    let scope = db.scope("shop", "prod").unwrap();
    let denied =
        |result: Result<_, aedb_queue::Error>| assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let task = || NewTask::new("n", &1).unwrap();
    denied(block_on(scope.queue("q").unwrap().enqueue(task())));
    let (q, prefix) = ("q".into(), b"ada:".to_vec());
    let (project, prod) = (|| "shop".into(), || "prod".into());
    block_on(db.grant("ada", GrantTarget::Queue { project: project(), scope: prod(), queue: q }, Some(Access::Write)))
        .unwrap();
    block_on(db.grant("ada", GrantTarget::Keys { project: project(), scope: prod(), prefix }, Some(Access::Write)))
        .unwrap();
    block_on(db.grant("eve", GrantTarget::Project(project()), Some(Access::Read))).unwrap();
    let (ada, eve) = (scope.as_caller("ada").unwrap(), scope.as_caller("eve").unwrap());

    let own = Effects::new().put("ada:1", "x");
    block_on(ada.queue("q").unwrap().enqueue_with(task(), own.clone())).unwrap();
    denied(block_on(ada.queue("other").unwrap().enqueue(task())));
    denied(block_on(ada.queue("q").unwrap().enqueue_with(task(), own.clone().put("eve:1", "x"))));
    denied(block_on(ada.queue("q").unwrap().enqueue_with(task(), own.enqueue("other", task()))));
    denied(block_on(eve.queue("q").unwrap().enqueue(task())));
    assert!(block_on(eve.queue("q").unwrap().claim(ClaimRequest::new("w", LENGTH))).is_err());
    assert_eq!(block_on(eve.queue("q").unwrap().stats()).unwrap().ready, 1, "what was denied left nothing");
    assert_eq!(block_on(ada.kv().scan(KeyRange::prefix("ada:"))).unwrap().len(), 1);
    assert!(block_on(ada.kv().get("eve:1")).is_err());

    block_on(db.grant("eve", GrantTarget::Project(project()), None)).unwrap();
    assert!(block_on(eve.queue("q").unwrap().stats()).is_err());
}
