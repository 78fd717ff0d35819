//! Migrations: from several programs at once, beside workers, and into schemas of any name.

use aedb_queue::{Db, ErrorKind};
use aedb_tests::server::{address, runtime};
use aedb_tests::task;
use sqlx::Executor;

use super::{claim, connection, on_a_schema};

#[test]
fn ten_that_migrate_one_new_schema_at_once_all_succeed_and_work() {
    let name = format!("test_{}_at_once", std::process::id());
    runtime().block_on(async {
        let opened = (0..10).map(|_| async { Db::builder().schema(&name).connections(1).connect(&address()).await });
        let dbs = futures::future::join_all(opened).await;
        for (n, db) in dbs.into_iter().enumerate() {
            db.unwrap().queue("q").unwrap().enqueue(task(n as u64)).await.unwrap();
        }
        let db = Db::builder().schema(&name).existing().connect(&address()).await.unwrap();
        assert_eq!(db.queue("q").unwrap().stats().await.unwrap().ready, 10);
        let drop = format!("set client_min_messages = error; drop schema {name} cascade");
        connection().await.execute(drop.as_str()).await.unwrap();
    });
}

#[test]
fn migrating_again_beside_a_worker_holds_nobody_up() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("q").unwrap();
        let work = async {
            for n in 0..50 {
                queue.enqueue(task(n)).await.unwrap();
                assert_eq!(claim(&queue, 1).await.len(), 1);
            }
        };
        let migrate = async {
            for _ in 0..20 {
                Db::builder().schema(&schema.name).connections(1).connect(&address()).await.unwrap();
            }
        };
        tokio::join!(work, migrate);
    });
}

#[test]
fn a_schema_that_is_missing_older_or_too_new_is_refused_with_what_to_do() {
    on_a_schema(async |schema| {
        let open = async || Db::builder().schema(&schema.name).existing().connect(&address()).await;
        let say = async |sql: String| {
            connection().await.execute(sql.replace("aedb", &schema.name).as_str()).await.unwrap();
            open().await.map(drop)
        };
        let newer = say("insert into aedb.migration values (900, 1)".into()).await;
        assert!(newer.is_ok(), "a newer schema that says it works with us: {newer:?}");
        let too_new = say("insert into aedb.migration values (901, 900)".into()).await.unwrap_err();
        assert!(too_new.kind() == ErrorKind::Invalid && too_new.to_string().contains("newer program"), "{too_new}");
        let old = say("delete from aedb.migration; insert into aedb.migration values (0, 0)".into()).await.unwrap_err();
        assert!(old.kind() == ErrorKind::Invalid && old.to_string().contains("migrate it"), "{old}");
        let missing = Db::builder().schema("never_made").existing().connect(&address()).await.map(drop).unwrap_err();
        assert!(missing.kind() == ErrorKind::Invalid && missing.to_string().contains("migrate it"), "{missing}");
    });
}

#[test]
fn hostile_schema_names_are_refused_before_anything_is_said_to_the_server() {
    runtime().block_on(async {
        let long = "s".repeat(49);
        for name in
            ["", "a;drop schema public", "a b", "A", "1a", "a.b", "a\"", "a'", "ü", "a\0", "pg_x", "$1", "a-b", &long]
        {
            let refused = Db::builder().schema(name).connect(&address()).await.map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{name:?}: {refused}");
        }
        // Plain words that mean something to SQL are names like others.
        for name in ["select", "table", "user", "_a1", &long[..48]] {
            let db = Db::builder().schema(name).connections(1).connect(&address()).await.unwrap();
            db.queue("q").unwrap().enqueue(task(1)).await.unwrap();
            assert_eq!(claim(&db.queue("q").unwrap(), 5).await.len(), 1, "{name}");
            let drop = format!("set client_min_messages = error; drop schema \"{name}\" cascade");
            connection().await.execute(drop.as_str()).await.unwrap();
        }
    });
}
