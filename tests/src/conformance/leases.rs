//! Leases by name: every row of the table of contract rule 17.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs};
use aedb_queue::{
    Effects, ErrorKind, FencedCommit, HeldLease, Json, Lease, LeaseLength, LeaseLoss, LeaseOutcome, LeaseRecord,
    RenewOutcome,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    acquire_takes_what_is_free_released_run_out_or_own_with_a_greater_token,
    acquire_of_what_somebody_else_holds_says_who_and_until_when_and_changes_nothing,
    renew_is_lost_unless_held_and_then_extends_and_never_shortens,
    release_clears_the_owner_keeps_the_token_and_may_be_repeated,
    a_guarded_commit_applies_only_while_held,
    with_a_token_that_is_not_current_every_call_is_lost_or_does_nothing,
    an_owner_that_acquires_again_makes_its_own_older_token_worthless,
    a_guarded_commit_whose_assertion_fails_applies_nothing_and_keeps_the_lease,
    a_guarded_commit_enqueues_with_its_writes,
    a_lease_runs_out_at_its_instant_and_not_a_microsecond_before,
    leases_are_apart_by_name_and_scope_and_show_their_note,
    a_key_of_the_application_never_touches_a_lease,
];

const LENGTH: LeaseLength = LeaseLength::secs(30);
const LOST: FencedCommit = FencedCommit::LeaseLost(LeaseLoss::TakenOver);

fn acquire(lease: &Lease, owner: &str) -> HeldLease {
    match block_on(lease.acquire(owner, LENGTH)).unwrap() {
        LeaseOutcome::Acquired(held) => held,
        other => panic!("{other:?}"),
    }
}

fn commit(lease: &Lease, held: &HeldLease, key: &str) -> FencedCommit {
    block_on(lease.guarded_commit(held, Effects::new().put(key, "written"))).unwrap()
}

fn status(lease: &Lease) -> LeaseRecord {
    block_on(lease.status()).unwrap().unwrap()
}

/// What a lease may be in when a call comes with the token that was last handed out.
fn lease_in(shop: &Shop, state: &str) -> (Lease, HeldLease) {
    let lease = shop.db.lease(state).unwrap();
    let held = acquire(&lease, "a");
    match state {
        "released" => block_on(lease.release(&held)).unwrap(),
        "run out" => shop.pass(secs(30)),
        _ => {}
    }
    (lease, held)
}

fn acquire_takes_what_is_free_released_run_out_or_own_with_a_greater_token() {
    let shop = Shop::new();
    assert_eq!(block_on(shop.db.lease("never").unwrap().status()).unwrap(), None);
    for (state, by) in [("released", "b"), ("released", "a"), ("run out", "b"), ("run out", "a"), ("held", "a")] {
        let (lease, before) = lease_in(&shop, state);
        let after = acquire(&lease, by);
        assert_eq!(after.token.as_u64(), before.token.as_u64() + 1, "{state}, by {by}");
        assert_eq!(after.until, shop.now().saturating_add(secs(30)));
        assert_eq!(status(&lease).owner.as_deref(), Some(by));
        block_on(lease.release(&after)).unwrap();
    }
}

fn acquire_of_what_somebody_else_holds_says_who_and_until_when_and_changes_nothing() {
    let shop = Shop::new();
    let (lease, held) = lease_in(&shop, "held");
    let before = status(&lease);
    shop.pass(secs(29));
    let answer = block_on(lease.acquire("b", LENGTH)).unwrap();
    assert_eq!(answer, LeaseOutcome::Held { owner: "a".into(), until: held.until });
    assert_eq!(status(&lease), before);
}

fn renew_is_lost_unless_held_and_then_extends_and_never_shortens() {
    let shop = Shop::new();
    for state in ["released", "run out"] {
        let (lease, held) = lease_in(&shop, state);
        assert_eq!(block_on(lease.renew(&held, LENGTH)).unwrap(), RenewOutcome::Lost, "{state}");
    }
    let (lease, held) = lease_in(&shop, "held");
    assert_eq!(block_on(lease.renew(&held, LeaseLength::secs(1))).unwrap(), RenewOutcome::Renewed(held.until));
    shop.pass(secs(10));
    let until = shop.now().saturating_add(secs(30));
    assert_eq!(block_on(lease.renew(&held, LENGTH)).unwrap(), RenewOutcome::Renewed(until));
    assert_eq!((status(&lease).until, status(&lease).token), (until, held.token));
}

fn release_clears_the_owner_keeps_the_token_and_may_be_repeated() {
    let shop = Shop::new();
    let (lease, held) = lease_in(&shop, "held");
    for _ in 0..2 {
        block_on(lease.release(&held)).unwrap();
        assert_eq!((status(&lease).owner, status(&lease).token), (None, held.token));
    }
}

fn a_guarded_commit_applies_only_while_held() {
    let shop = Shop::new();
    for state in ["released", "run out"] {
        let (lease, held) = lease_in(&shop, state);
        assert_eq!((commit(&lease, &held, state), shop.key(state)), (LOST, None));
    }
    let (lease, held) = lease_in(&shop, "held");
    assert!(commit(&lease, &held, "held").is_applied());
    assert_eq!(shop.key("held").as_deref(), Some("written"));
}

fn with_a_token_that_is_not_current_every_call_is_lost_or_does_nothing() {
    let shop = Shop::new();
    let (lease, old) = lease_in(&shop, "run out");
    let new = acquire(&lease, "b");
    let mut forged = new.clone();
    forged.owner = "c".into();
    let before = status(&lease);
    for held in [&old, &forged] {
        assert_eq!(block_on(lease.renew(held, LENGTH)).unwrap(), RenewOutcome::Lost);
        assert_eq!((commit(&lease, held, "k"), shop.key("k")), (LOST, None));
    }
    block_on(lease.release(&old)).unwrap();
    assert_eq!(status(&lease), before);
    assert!(commit(&lease, &new, "k").is_applied());
}

fn an_owner_that_acquires_again_makes_its_own_older_token_worthless() {
    let shop = Shop::new();
    let (lease, old) = lease_in(&shop, "held");
    let new = acquire(&lease, "a");
    assert_eq!(commit(&lease, &old, "k"), LOST);
    assert!(commit(&lease, &new, "k").is_applied());
}

fn a_guarded_commit_whose_assertion_fails_applies_nothing_and_keeps_the_lease() {
    let shop = Shop::new();
    let (lease, held) = lease_in(&shop, "held");
    let effects = Effects::new().put("a", "1").assert_present("missing").put("b", "1");
    let error = block_on(lease.guarded_commit(&held, effects)).unwrap_err();
    assert_eq!((error.kind(), shop.key("a"), shop.key("b")), (ErrorKind::Conflict, None, None));
    assert!(commit(&lease, &held, "a").is_applied());
}

fn a_guarded_commit_enqueues_with_its_writes() {
    let shop = Shop::new();
    let (lease, held) = lease_in(&shop, "held");
    let effects = Effects::new().enqueue("q", crate::task(1)).put("tick", "1");
    assert!(block_on(lease.guarded_commit(&held, effects)).unwrap().is_applied());
    assert_eq!(shop.claim(9).len(), 1);
}

fn a_lease_runs_out_at_its_instant_and_not_a_microsecond_before() {
    let shop = Shop::new();
    let (lease, held) = lease_in(&shop, "held");
    shop.pass(secs(30) - std::time::Duration::from_micros(1));
    assert!(commit(&lease, &held, "k").is_applied());
    shop.pass(std::time::Duration::from_micros(1));
    assert_eq!(commit(&lease, &held, "k"), LOST);
}

fn leases_are_apart_by_name_and_scope_and_show_their_note() {
    let shop = Shop::new();
    let [a, b] = ["a", "b"].map(|name| shop.db.lease(name).unwrap());
    let other = shop.db.scope("default", "other").unwrap().lease("a").unwrap();
    let held = acquire(&a, "w");
    acquire(&b, "x");
    acquire(&other, "y");
    assert_eq!(status(&a).owner.as_deref(), Some("w"));
    assert!(matches!(
        block_on(a.acquire_with("w", LENGTH, Json::of("host 7").unwrap())),
        Ok(LeaseOutcome::Acquired(_))
    ));
    assert_eq!((status(&a).note, status(&a).token > held.token), (Some(Json::of("host 7").unwrap()), true));
}

fn a_key_of_the_application_never_touches_a_lease() {
    let shop = Shop::new();
    let (lease, held) = lease_in(&shop, "held");
    let kv = shop.db.default_scope().kv();
    for prefix in ["\0aedb:lease:held", "\0aedb:queue:q", "\0aedb:"] {
        assert_eq!(block_on(kv.commit(Effects::new().put(prefix, ""))).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(block_on(kv.get(prefix)).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert!(block_on(kv.scan(aedb_queue::KeyRange::prefix(""))).unwrap().is_empty());
    assert!(commit(&lease, &held, "k").is_applied());
}
