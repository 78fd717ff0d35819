//! Callers: what a grant allows, and that everything else is refused before anything is written (contract rule 19).

use crate::conformance::{Rule, rules};
use crate::{Shop, claims, task};
use aedb_queue::{
    Access, Amendment, Completion, Db, Effects, Error, ErrorKind, Filter, GrantTarget, KeyRange, LeaseLength,
    RetentionLimits, Scope,
};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    a_caller_without_a_grant_can_do_nothing_and_leaves_nothing,
    a_grant_to_read_reads_and_a_grant_to_write_does_both_until_it_is_taken_back,
    a_grant_is_for_one_caller_one_scope_and_one_whole_name,
    the_strongest_grant_that_fits_decides,
    key_grants_hold_for_their_prefix_only,
    effects_and_follow_ups_need_their_own_grants_and_a_denied_one_applies_nothing,
];

fn queue_target(queue: &str) -> GrantTarget {
    GrantTarget::Queue { project: "default".into(), scope: "default".into(), queue: queue.into() }
}

fn scope_target() -> GrantTarget {
    GrantTarget::Scope { project: "default".into(), scope: "default".into() }
}

fn keys_target(prefix: &str) -> GrantTarget {
    GrantTarget::Keys { project: "default".into(), scope: "default".into(), prefix: prefix.into() }
}

fn grant(db: &Db, target: GrantTarget, access: Option<Access>) {
    block_on(db.grant("ada", target, access)).unwrap();
}

/// Whether an answer is that of a missing grant; any other error is a fault.
pub fn denied<T: std::fmt::Debug>(answer: Result<T, Error>) -> bool {
    match answer {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            true
        }
    }
}

/// Whether each reading, and each writing call on the queue `q` is denied; calls of one kind must agree.
pub fn denied_on_q(scope: &Scope) -> (bool, bool) {
    let queue = scope.queue("q").unwrap();
    let id = aedb_queue::TaskId::from_u64(1);
    let reads = [
        denied(block_on(queue.get(id))),
        denied(block_on(queue.list(Filter::all()))),
        denied(block_on(queue.stats())),
        denied(block_on(queue.explain(id))),
        denied(block_on(queue.check())),
    ];
    let writes = [
        denied(block_on(queue.enqueue(task(1)))),
        denied(block_on(queue.claim(claims("w")))),
        denied(block_on(queue.settle(Vec::new()))),
        denied(block_on(queue.heartbeat_batch(Vec::new()))),
        denied(block_on(queue.cancel(id))),
        denied(block_on(queue.amend(id, Amendment::new().priority(1)))),
        denied(block_on(queue.retry(id))),
        denied(block_on(queue.delete(id))),
        denied(block_on(queue.pause())),
        denied(block_on(queue.resume())),
        denied(block_on(queue.sweep(RetentionLimits::default()))),
        denied(block_on(queue.repair())),
    ];
    assert!(reads.iter().all(|denied| *denied == reads[0]), "{reads:?}");
    assert!(writes.iter().all(|denied| *denied == writes[0]), "{writes:?}");
    (reads[0], writes[0])
}

/// The same of the lease `l`: asking about it, and acquiring it.
pub fn denied_on_lease(scope: &Scope) -> (bool, bool) {
    let lease = scope.lease("l").unwrap();
    (denied(block_on(lease.status())), denied(block_on(lease.acquire("w", LeaseLength::secs(9)))))
}

fn a_caller_without_a_grant_can_do_nothing_and_leaves_nothing() {
    let shop = Shop::new();
    let scope = shop.db.default_scope().as_caller("ada").unwrap();
    assert_eq!((denied_on_q(&scope), denied_on_lease(&scope)), ((true, true), (true, true)));
    assert!(denied(block_on(scope.queues())));
    assert!(denied(block_on(scope.kv().get("k"))) && denied(block_on(scope.kv().scan(KeyRange::prefix("")))));
    assert!(denied(block_on(scope.kv().commit(Effects::new().put("k", "v")))));
    assert!(block_on(shop.db.default_scope().queues()).unwrap().is_empty());
    assert_eq!(shop.key("k"), None);
}

fn a_grant_to_read_reads_and_a_grant_to_write_does_both_until_it_is_taken_back() {
    let project = || GrantTarget::Project("default".into());
    for (target, whole_scope) in [(queue_target("q"), false), (scope_target(), true), (project(), true)] {
        let shop = Shop::new();
        let scope = shop.db.default_scope().as_caller("ada").unwrap();
        for (access, on_q) in [
            (Some(Access::Read), (false, true)),
            (Some(Access::Write), (false, false)),
            (Some(Access::Read), (false, true)),
            (None, (true, true)),
        ] {
            grant(&shop.db, target.clone(), access);
            assert_eq!(denied_on_q(&scope), on_q, "{target:?} {access:?}");
            let on_lease = if whole_scope { on_q } else { (true, true) };
            assert_eq!(denied_on_lease(&scope), on_lease);
        }
    }
}

fn a_grant_is_for_one_caller_one_scope_and_one_whole_name() {
    let shop = Shop::new();
    for target in ["", "q2", "Q"].map(queue_target) {
        grant(&shop.db, target, Some(Access::Write));
    }
    grant(&shop.db, GrantTarget::Project("defaul".into()), Some(Access::Write));
    grant(&shop.db, GrantTarget::Scope { project: "default".into(), scope: "d".into() }, Some(Access::Write));
    let ada = shop.db.default_scope().as_caller("ada").unwrap();
    assert_eq!(denied_on_q(&ada), (true, true));
    grant(&shop.db, queue_target("q"), Some(Access::Write));
    let others = [
        shop.db.default_scope().as_caller("ad").unwrap(),
        shop.db.default_scope().as_caller("ada2").unwrap(),
        shop.db.scope("default", "other").unwrap().as_caller("ada").unwrap(),
        shop.db.scope("other", "default").unwrap().as_caller("ada").unwrap(),
    ];
    for other in others {
        assert_eq!(denied_on_q(&other), (true, true), "{other:?}");
    }
}

fn the_strongest_grant_that_fits_decides() {
    let shop = Shop::new();
    let ada = shop.db.default_scope().as_caller("ada").unwrap();
    grant(&shop.db, scope_target(), Some(Access::Write));
    grant(&shop.db, queue_target("q"), Some(Access::Read));
    assert_eq!(denied_on_q(&ada), (false, false));
}

fn key_grants_hold_for_their_prefix_only() {
    let shop = Shop::new();
    grant(&shop.db, keys_target("orders/"), Some(Access::Write));
    grant(&shop.db, keys_target("prices/"), Some(Access::Read));
    let kv = shop.db.default_scope().as_caller("ada").unwrap().kv();
    block_on(kv.commit(Effects::new().assert_absent("prices/1").put("orders/1", "x"))).unwrap();
    for bad in ["order", "orders", "prices/1", "p", "x"] {
        assert!(denied(block_on(kv.commit(Effects::new().put("orders/2", "x").put(bad, "x")))), "{bad}");
    }
    assert_eq!((shop.key("orders/1").as_deref(), shop.key("orders/2")), (Some("x"), None));
    assert!(denied(block_on(kv.scan(KeyRange::prefix("order")))));
    assert_eq!(block_on(kv.scan(KeyRange::prefix("orders/"))).unwrap().len(), 1);
    assert!(block_on(kv.scan(KeyRange::prefix("prices/"))).unwrap().is_empty());
}

fn effects_and_follow_ups_need_their_own_grants_and_a_denied_one_applies_nothing() {
    let shop = Shop::new();
    grant(&shop.db, queue_target("q"), Some(Access::Write));
    let queue = shop.db.default_scope().as_caller("ada").unwrap().queue("q").unwrap();
    let effects = [Effects::new().put("k", "v"), Effects::new().enqueue("other", task(1))];
    for effects in effects {
        assert!(denied(block_on(queue.enqueue_with(task(1), effects.clone()))));
        assert!(shop.claim(9).is_empty());
        block_on(queue.enqueue(task(1))).unwrap();
        let claim = block_on(queue.claim(claims("w"))).unwrap().remove(0);
        assert!(denied(block_on(queue.complete(&claim, Completion::new().effects(effects)))));
        assert!(block_on(queue.complete(&claim, Completion::new())).unwrap().is_applied(), "the lease is still held");
    }
    assert_eq!(shop.key("k"), None);
    assert_eq!(block_on(shop.db.default_scope().queues()).unwrap(), ["q"]);
}
