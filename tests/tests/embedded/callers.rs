//! Callers: what a grant allows, and that everything else is refused before anything is written (contract rule 19).

use aedb_queue::{
    Access, Amendment, Db, Effects, Error, ErrorKind, Filter, GrantTarget, LeaseLength, RetentionLimits, Scope,
};
use aedb_tests::{claims, task};
use futures::executor::block_on;

fn scope_target() -> GrantTarget {
    GrantTarget::Scope { project: "default".into(), scope: "default".into() }
}

fn grant(db: &Db, target: GrantTarget, access: Option<Access>) {
    block_on(db.grant("ada", target, access)).unwrap();
}

fn denied<T: std::fmt::Debug>(answer: Result<T, Error>) -> bool {
    match answer {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            true
        }
    }
}

/// Whether each reading, and each writing call on the queue `q` is denied; calls of one kind must agree.
fn denied_on_q(scope: &Scope) -> (bool, bool) {
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

fn denied_on_lease(scope: &Scope) -> (bool, bool) {
    let lease = scope.lease("l").unwrap();
    (denied(block_on(lease.status())), denied(block_on(lease.acquire("w", LeaseLength::secs(9)))))
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
