//! Notes of leases, and listing leases by prefix.

use crate::conformance::{Rule, rules};
use crate::{Shop, secs};
use aedb_queue::limits::NOTE_BYTES;
use aedb_queue::{Cursor, ErrorKind, HeldLease, Json, LeaseLength, LeaseOutcome, Scope};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    a_renewal_keeps_the_note_an_acquire_replaces_it_and_a_release_drops_it,
    a_note_has_at_most_64_kib,
    leases_are_listed_by_prefix_in_the_order_of_their_names,
    pages_go_on_where_the_last_one_ended_and_long_notes_make_them_shorter,
    only_who_may_read_the_scope_may_list_its_leases,
];

const LENGTH: LeaseLength = LeaseLength::secs(30);

fn acquire(scope: &Scope, name: &str, owner: &str, note: Option<Json>) -> HeldLease {
    let lease = scope.lease(name).unwrap();
    let outcome = match note {
        Some(note) => block_on(lease.acquire_with(owner, LENGTH, note)),
        None => block_on(lease.acquire(owner, LENGTH)),
    };
    let LeaseOutcome::Acquired(held) = outcome.unwrap() else { panic!("{name} is held") };
    held
}

fn note(scope: &Scope, name: &str) -> Option<Json> {
    block_on(scope.lease(name).unwrap().status()).unwrap().unwrap().note
}

fn names(scope: &Scope, prefix: &str) -> Vec<String> {
    let page = block_on(scope.leases(prefix, None, 1_000)).unwrap();
    assert!(page.next.is_none());
    page.leases.iter().map(|lease| lease.name.to_string()).collect()
}

fn a_renewal_keeps_the_note_an_acquire_replaces_it_and_a_release_drops_it() {
    let shop = Shop::new();
    let scope = shop.db.default_scope();
    let json = |n: u32| Json::of(&n).unwrap();
    let held = acquire(&scope, "a", "w", Some(json(1)));
    shop.pass(secs(10));
    let lease = scope.lease("a").unwrap();
    let _ = block_on(lease.renew(&held, LENGTH)).unwrap();
    assert_eq!(note(&scope, "a"), Some(json(1)));
    acquire(&scope, "a", "w", Some(json(2)));
    assert_eq!(note(&scope, "a"), Some(json(2)));
    let held = acquire(&scope, "a", "w", None);
    assert_eq!(note(&scope, "a"), None);
    drop(held);
    let held = acquire(&scope, "a", "w", Some(json(3)));
    block_on(lease.release(&held)).unwrap();
    assert_eq!(note(&scope, "a"), None);
}

fn a_note_has_at_most_64_kib() {
    let shop = Shop::new();
    let scope = shop.db.default_scope();
    let long = |bytes: usize| Json::of(&"x".repeat(bytes - 2)).unwrap();
    acquire(&scope, "a", "w", Some(long(NOTE_BYTES)));
    let error = block_on(scope.lease("a").unwrap().acquire_with("w", LENGTH, long(NOTE_BYTES + 1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("lease note bytes") && error.to_string().contains("65537"), "{error}");
}

fn leases_are_listed_by_prefix_in_the_order_of_their_names() {
    let shop = Shop::new();
    let scope = shop.db.default_scope();
    for name in ["b:2", "a:1", "b:1", "b", "c", "b:\u{10ffff}"] {
        acquire(&scope, name, "w", None);
    }
    acquire(&shop.db.scope("default", "other").unwrap(), "b:3", "w", None);
    assert_eq!(names(&scope, "b:"), ["b:1", "b:2", "b:\u{10ffff}"]);
    assert_eq!(names(&scope, ""), ["a:1", "b", "b:1", "b:2", "b:\u{10ffff}", "c"]);
    assert_eq!(names(&scope, "none"), [""; 0]);
}

fn pages_go_on_where_the_last_one_ended_and_long_notes_make_them_shorter() {
    let shop = Shop::new();
    let scope = shop.db.default_scope();
    for n in 100..200 {
        acquire(&scope, &format!("w:{n}"), "w", Some(Json::of(&"x".repeat(60_000)).unwrap()));
    }
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = block_on(scope.leases("w:", after, 90)).unwrap();
        seen.extend(page.leases.iter().map(|lease| lease.name.to_string()));
        pages += 1;
        // Kept as text in between, as a program does that shows pages.
        match page.next.map(|next| next.to_string().parse::<Cursor>().unwrap()) {
            next @ Some(_) => after = next,
            None => break,
        }
    }
    assert_eq!((seen.len(), seen.is_sorted(), pages), (100, true, 2));
    let cursor = block_on(scope.leases("w:", None, 1)).unwrap().next;
    assert_eq!(block_on(scope.leases("x:", cursor, 1)).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(block_on(scope.leases("w:", None, 0)).unwrap().leases.is_empty());
}

fn only_who_may_read_the_scope_may_list_its_leases() {
    let shop = Shop::new();
    let eve = shop.db.default_scope().as_caller("eve").unwrap();
    assert_eq!(block_on(eve.leases("", None, 1)).unwrap_err().kind(), ErrorKind::PermissionDenied);
}
