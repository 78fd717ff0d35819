//! Inside of AEDB: its callers, its own mutations in our commits, writes of others in between, and commits without an answer.

#![cfg(feature = "aedb")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use aedb::AedbInstance;
use aedb::catalog::DdlOperation;
use aedb::commit::validation::Mutation;
use aedb::config::AedbConfig;
use aedb::permission::Permission;
use aedb_queue::{Completion, Db, Effects, ErrorKind, Scope};
use aedb_tests::instance::{self, config, runtime};
use aedb_tests::{Shop, claims, task};
use futures::executor::block_on;

fn right(caller: &str, writes: bool) -> Mutation {
    let (project_id, scope_id, prefix) = ("p".to_owned(), Some("s".to_owned()), None);
    let permission = if writes {
        Permission::KvWrite { project_id, scope_id, prefix }
    } else {
        Permission::KvRead { project_id, scope_id, prefix }
    };
    Mutation::Ddl(DdlOperation::GrantPermission {
        actor_id: None,
        delegable: false,
        caller_id: caller.into(),
        permission,
    })
}

/// A folder in which the queue's own caller and `ada` may do everything in `p/s`, and `bob` may read.
fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let instance = instance::open(folder.path(), config());
    runtime().block_on(async {
        instance.create_project("p").await.unwrap();
        instance.create_scope("p", "s").await.unwrap();
        for (caller, writes) in [("queue", false), ("queue", true), ("ada", false), ("ada", true), ("bob", false)] {
            instance.commit(right(caller, writes)).await.unwrap();
        }
        instance.shutdown().await.unwrap();
    });
    folder
}

fn secure(folder: &tempfile::TempDir) -> Scope {
    let _within = runtime().enter();
    let instance = Arc::new(AedbInstance::open(config(), folder.path()).unwrap());
    Db::builder().aedb_caller("queue").aedb(instance).unwrap().scope("p", "s").unwrap()
}

fn denied<T: std::fmt::Debug>(answer: aedb_queue::Result<T>) -> bool {
    answer.unwrap_err().kind() == ErrorKind::PermissionDenied
}

#[test]
fn an_instance_that_requires_callers_asks_for_each_callers_own_permissions() {
    let folder = prepared();
    let scope = secure(&folder);
    let (ada, bob, eve) =
        (scope.as_caller("ada").unwrap(), scope.as_caller("bob").unwrap(), scope.as_caller("eve").unwrap());
    let queue = |scope: &Scope| scope.queue("q").unwrap();
    let id = block_on(queue(&ada).enqueue(task(1))).unwrap().id;
    assert!(denied(block_on(queue(&bob).enqueue(task(2)))) && denied(block_on(queue(&eve).enqueue(task(2)))));
    assert!(block_on(queue(&bob).get(id)).unwrap().is_some());
    assert!(denied(block_on(queue(&eve).get(id))) && denied(block_on(queue(&bob).claim(claims("w")))));
    assert!(denied(block_on(bob.kv().commit(Effects::new().put("k", "v")))));
    // Without a caller it is the queue's own.
    let claim = block_on(queue(&scope).claim(claims("w"))).unwrap().remove(0);
    assert!(block_on(queue(&ada).complete(&claim, Completion::new())).unwrap().is_applied());
    assert_eq!(block_on(queue(&scope).stats()).unwrap().done, 1);
}

#[test]
fn callers_of_one_moment_are_each_answered_for_themselves() {
    let folder = prepared();
    let scope = secure(&folder);
    let calls = (0..60).map(|n| {
        let queue = scope.as_caller(["ada", "bob", "queue"][n % 3]).unwrap().queue("q").unwrap();
        async move { queue.enqueue(task(n as u64)).await.is_ok() }
    });
    let answers = block_on(futures::future::join_all(calls));
    assert!(answers.iter().enumerate().all(|(n, ok)| *ok == (n % 3 != 1)), "{answers:?}");
    assert_eq!(block_on(scope.queue("q").unwrap().stats()).unwrap().ready, 40);
}

fn shop() -> (Shop, Arc<AedbInstance>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let instance = instance::open(folder.path(), config());
    let clock = aedb_queue::ManualClock::default();
    let db = instance::attach(Db::builder().clock(clock.clone()), Arc::clone(&instance));
    (Shop::on(db, clock), instance, folder)
}

fn add(key: &str, less: bool) -> Mutation {
    let (project_id, scope_id, key) = ("default".to_owned(), "default".to_owned(), key.as_bytes().to_vec());
    let mut amount_be = [0; 32];
    amount_be[31] = 1;
    if less {
        Mutation::KvDecU256 { project_id, scope_id, key, amount_be }
    } else {
        Mutation::KvIncU256 { project_id, scope_id, key, amount_be }
    }
}

#[test]
fn mutations_of_aedb_ride_in_the_commit_and_one_that_is_refused_takes_only_its_own_call_along() {
    let (shop, ..) = shop();
    let queue = &shop.queue;
    block_on(queue.enqueue_with(task(1), Effects::new().aedb(add("count", false)).put("k", "v"))).unwrap();
    let claim = shop.claim_one();
    let done = Completion::new().effects(Effects::new().aedb(add("count", false)));
    assert!(block_on(queue.complete(&claim, done)).unwrap().is_applied());
    let count = block_on(shop.db.default_scope().kv().get("count")).unwrap().unwrap();
    assert_eq!((count[31], shop.key("k").as_deref()), (2, Some("v")));
    // Nothing of a stale completion, and nothing of a call whose mutation AEDB refuses; its neighbours stay.
    let stale = Completion::new().effects(Effects::new().aedb(add("count", false)));
    assert!(
        !block_on(queue.complete(&claim, stale)).unwrap().is_applied() || shop.state(claim.id).finished().is_some()
    );
    let calls = (0..20).map(|n| async move {
        let effects = if n % 4 == 0 { Effects::new().aedb(add("nothing", true)) } else { Effects::new() };
        queue.enqueue_with(task(n), effects).await.is_ok()
    });
    let answers = block_on(futures::future::join_all(calls));
    assert!(answers.iter().enumerate().all(|(n, ok)| *ok == (n % 4 != 0)), "{answers:?}");
    assert_eq!(block_on(queue.stats()).unwrap().ready, 15);
    assert_eq!(block_on(shop.db.default_scope().kv().get("count")).unwrap().unwrap()[31], 2);
}

#[test]
fn a_mutation_of_aedb_is_refused_outside_of_it() {
    let refused = block_on(Db::memory().unwrap().default_scope().kv().commit(Effects::new().aedb(add("k", false))));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn what_others_write_in_between_is_found_and_the_call_is_decided_again() {
    let (shop, instance, _folder) = shop();
    block_on(shop.db.default_scope().kv().commit(Effects::new().put("turn", "0"))).unwrap();
    let kv = shop.db.default_scope().kv();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in 0..200_u64 {
                let write = Mutation::KvSet {
                    project_id: "default".into(),
                    scope_id: "default".into(),
                    key: b"turn".to_vec(),
                    value: n.to_string().into_bytes(),
                };
                runtime().block_on(instance.commit(write)).unwrap();
            }
        });
        for n in 0..50_u64 {
            // Each either holds of what was there, or is refused as an assertion that does not; none of AEDB's own conflicts comes through.
            let seen = block_on(kv.get("turn")).unwrap().unwrap();
            match block_on(kv.commit(Effects::new().assert_value("turn", seen).put("turn", format!("ours {n}")))) {
                Ok(()) => {}
                Err(error) => {
                    assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("as asserted"), "{error}")
                }
            }
        }
    });
}

#[test]
fn a_commit_that_gets_no_answer_in_time_is_applied_once() {
    let folder = tempfile::tempdir().unwrap();
    let instance = instance::open(folder.path(), AedbConfig { commit_timeout_ms: 1, ..config() });
    let queue = instance::attach(Db::builder(), instance).queue("q").unwrap();
    let (mut applied, mut unknown) = (0, 0);
    for n in 0..200 {
        match block_on(queue.enqueue(task(n))) {
            Ok(_) => applied += 1,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::UnknownOutcome | ErrorKind::Unavailable), "{error}");
                unknown += u64::from(error.kind() == ErrorKind::UnknownOutcome);
            }
        }
    }
    let ready = block_on(queue.stats()).unwrap().ready;
    assert!((applied..=applied + unknown).contains(&ready), "{applied} were applied, {ready} are there");
}

#[test]
fn sixty_four_callers_of_one_queue_never_fail() {
    let (shop, ..) = shop();
    std::thread::scope(|threads| {
        let calls: Vec<_> = (0..64)
            .map(|n| {
                let queue = shop.queue.clone();
                threads.spawn(move || (0..4).all(|m| block_on(queue.enqueue(task(n * 4 + m))).is_ok()))
            })
            .collect();
        assert!(calls.into_iter().all(|call| call.join().unwrap()));
    });
    assert_eq!(block_on(shop.queue.stats()).unwrap().ready, 256);
}
