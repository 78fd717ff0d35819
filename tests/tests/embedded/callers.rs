//! Callers, where a database requires one.

use aedb_queue::{Access, Db, Effects, GrantTarget};
use aedb_tests::conformance::callers::{denied, denied_on_lease, denied_on_q};
use futures::executor::block_on;

fn scope_target() -> GrantTarget {
    GrantTarget::Scope { project: "default".into(), scope: "default".into() }
}

fn grant(db: &Db, target: GrantTarget, access: Option<Access>) {
    block_on(db.grant("ada", target, access)).unwrap();
}

#[test]
fn where_callers_are_required_nobody_is_anonymous() {
    let db = Db::builder().inline().callers_required().memory().unwrap();
    let (anonymous, ada) = (db.default_scope(), db.default_scope().as_caller("ada").unwrap());
    assert_eq!((denied_on_q(&anonymous), denied_on_lease(&anonymous)), ((true, true), (true, true)));
    assert!(denied(block_on(anonymous.kv().commit(Effects::new().put("k", "v")))));
    assert!(denied(block_on(anonymous.queues())));
    grant(&db, scope_target(), Some(Access::Write));
    assert_eq!((denied_on_q(&ada), denied_on_lease(&ada)), ((false, false), (false, false)));
    block_on(ada.kv().commit(Effects::new().put("k", "v"))).unwrap();
}
