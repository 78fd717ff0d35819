//! Appended keys: in the order of their commits, none twice, all or nothing.

use std::time::Duration;

use crate::conformance::{Rule, rules};
use crate::{LEASE, Shop};
use aedb_queue::{Completion, Db, Effects, ErrorKind, KeyRange, NewTask, limits};
use futures::executor::block_on;

/// The rules.
pub(super) const RULES: &[Rule] = rules![
    appended_values_lie_in_the_order_of_their_commits_over_restarts_and_clocks_that_stand_or_jump_back,
    an_append_rides_with_a_completion_and_falls_with_a_lost_lease_or_an_assertion,
    a_prefix_that_leaves_no_room_for_the_number_or_is_reserved_is_refused,
    a_caller_appends_only_where_it_may_write,
];

fn appended(db: &Db) -> Vec<(Vec<u8>, String)> {
    let page = block_on(db.default_scope().kv().scan(KeyRange::prefix("log:"))).unwrap();
    page.into_iter().map(|(key, value)| (key, String::from_utf8(value).unwrap())).collect()
}

fn appended_values_lie_in_the_order_of_their_commits_over_restarts_and_clocks_that_stand_or_jump_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("append.db");
    let mut expected = Vec::new();
    for round in 0..3 {
        let db = Db::open(&file).unwrap();
        for n in 0..20 {
            let two = Effects::new().append("log:", format!("{round}-{n}-a")).append("log:", format!("{round}-{n}-b"));
            block_on(db.default_scope().kv().commit(two)).unwrap();
            expected.extend([format!("{round}-{n}-a"), format!("{round}-{n}-b")]);
        }
    }
    let db = Db::open(&file).unwrap();
    let found = appended(&db);
    assert!(found.iter().all(|(key, _)| key.len() == "log:".len() + 8));
    assert_eq!(found.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), expected);
    // On a clock that stands, each commit has a number of its own all the same.
    let shop = Shop::new();
    for n in 0..5 {
        block_on(shop.db.default_scope().kv().commit(Effects::new().append("log:", n.to_string()))).unwrap();
    }
    let found = appended(&shop.db);
    assert_eq!(found.into_iter().map(|(_, value)| value).collect::<String>(), "01234");
}

fn an_append_rides_with_a_completion_and_falls_with_a_lost_lease_or_an_assertion() {
    let shop = Shop::new();
    shop.enqueue(NewTask::new("n", &1).unwrap());
    let claim = shop.claim(1).remove(0);
    let done = |value: &str| Completion::new().effects(Effects::new().append("log:", value));
    let refused = done("refused").effects(Effects::new().assert_present("absent"));
    assert_eq!(block_on(shop.queue.complete(&claim, refused)).unwrap_err().kind(), ErrorKind::Conflict);
    shop.clock.advance(LEASE + Duration::from_secs(1));
    let second = shop.claim(1).remove(0);
    assert!(!block_on(shop.queue.complete(&claim, done("late"))).unwrap().is_applied());
    assert!(block_on(shop.queue.complete(&second, done("right"))).unwrap().is_applied());
    assert_eq!(appended(&shop.db).into_iter().map(|(_, value)| value).collect::<Vec<_>>(), ["right"]);
}

fn a_prefix_that_leaves_no_room_for_the_number_or_is_reserved_is_refused() {
    let shop = Shop::new();
    let kv = shop.db.default_scope().kv();
    let commit = |prefix: Vec<u8>| block_on(kv.commit(Effects::new().append(prefix, "v")));
    commit(vec![b'x'; limits::KEY_BYTES - 8]).unwrap();
    let error = commit(vec![b'x'; limits::KEY_BYTES - 7]).unwrap_err();
    assert_eq!((error.kind(), error.limit().unwrap().name), (ErrorKind::TooLarge, "key bytes"));
    for prefix in [b"".to_vec(), b"\x00aedb:queue:".to_vec()] {
        assert_eq!(commit(prefix).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

fn a_caller_appends_only_where_it_may_write() {
    let shop = Shop::new();
    let caller = shop.db.default_scope().as_caller("log writer").unwrap();
    let append = |prefix: &str| block_on(caller.kv().commit(Effects::new().append(prefix, "v")));
    assert_eq!(append("log:").unwrap_err().kind(), ErrorKind::PermissionDenied);
    let target =
        aedb_queue::GrantTarget::Keys { project: "default".into(), scope: "default".into(), prefix: b"log:".to_vec() };
    block_on(shop.db.grant("log writer", target, Some(aedb_queue::Access::Write))).unwrap();
    append("log:").unwrap();
    assert_eq!(append("other:").unwrap_err().kind(), ErrorKind::PermissionDenied);
}
