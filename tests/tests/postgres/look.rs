//! What others see: notifications of one size, the view and the function for people and triggers, texts, and no passwords.

use std::collections::BTreeSet;
use std::time::Duration;

use aedb_queue::{Db, ErrorKind, NewTask};
use aedb_tests::server::address;
use aedb_tests::task;
use sqlx::postgres::PgListener;
use sqlx::{Executor, Row};

use super::{claim, connection, on_a_schema};

#[test]
fn c52_notifications_have_one_size_and_are_few_whatever_is_enqueued() {
    on_a_schema(async |schema| {
        let mut listener = PgListener::connect(&address()).await.unwrap();
        listener.listen(&format!("{}_ready", schema.name)).await.unwrap();
        let db = schema.store.db();
        let long = db.queue(&"q".repeat(255)).unwrap();
        long.enqueue(NewTask::new("n", &"x".repeat(1_000_000)).unwrap()).await.unwrap();
        long.enqueue_batch((0..10_000).map(task).collect()).await.unwrap();
        for n in 0..100 {
            db.queue("q").unwrap().enqueue(task(n)).await.unwrap();
        }
        let mut heard = Vec::new();
        while let Ok(hint) = tokio::time::timeout(Duration::from_millis(300), listener.recv()).await {
            heard.push(hint.unwrap().payload().to_owned());
        }
        assert!(heard.iter().all(|hint| hint.len() == 16), "{heard:?}");
        assert_eq!(heard.iter().collect::<BTreeSet<_>>().len(), 2, "one for each queue");
        assert!(heard.len() < 90, "{} for 102 commits", heard.len());
    });
}

#[test]
fn a_claim_that_waits_in_one_process_hears_of_an_enqueue_in_another() {
    on_a_schema(async |schema| {
        // A store of its own has its own connections and hints, like another process.
        let other = Db::builder().schema(&schema.name).connections(1).connect(&address()).await.unwrap();
        let (here, there) = (schema.store.db().queue("q").unwrap(), other.queue("q").unwrap());
        here.enqueue(task(0)).await.unwrap();
        claim(&here, 1).await;
        let mut waits = Vec::new();
        for n in 0..5 {
            let waiting = here.claim(super::request(1).wait(Duration::from_secs(10)));
            let send = async {
                tokio::time::sleep(Duration::from_millis(120)).await;
                let sent = tokio::time::Instant::now();
                there.enqueue(task(n)).await.unwrap();
                sent
            };
            let (claimed, sent) = tokio::join!(waiting, send);
            assert_eq!(claimed.unwrap().len(), 1);
            waits.push(sent.elapsed());
        }
        waits.sort();
        // Without hints the poll would find it: up to half a second later.
        assert!(waits[2] < Duration::from_millis(200), "{waits:?}");
    });
}

#[test]
fn behind_a_pooler_nothing_listens_and_the_poll_finds_everything() {
    on_a_schema(async |schema| {
        let builder = || Db::builder().schema(&schema.name).connections(2).behind_pooler();
        let (one, other) = (builder().connect(&address()).await.unwrap(), builder().connect(&address()).await.unwrap());
        let (here, there) = (one.queue("q").unwrap(), other.queue("q").unwrap());
        let waiting = here.claim(super::request(1).wait(Duration::from_secs(10)));
        let send = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            there.enqueue(task(1)).await.unwrap();
            let listens = "select count(*) from pg_stat_activity where query ilike '%listen%' || $1 || '%' and pid <> pg_backend_pid()";
            sqlx::query_scalar::<_, i64>(listens).bind(&schema.name).fetch_one(&mut connection().await).await.unwrap()
        };
        let (claimed, listeners) = tokio::join!(waiting, send);
        assert_eq!((claimed.unwrap().len(), listeners), (1, 0));
    });
}

#[test]
fn people_see_tasks_in_words_in_a_view_that_takes_no_writes() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("q").unwrap();
        let long = "x".repeat(2_000);
        queue.enqueue(NewTask::new("mail", &long).unwrap().priority(7).idempotency_key("k")).await.unwrap();
        queue.enqueue(task(2).delay(Duration::from_hours(1))).await.unwrap();
        let claimed = claim(&queue, 1).await;
        let _ = queue.fail_with(&claimed[0], "the bank is busy", aedb_queue::Retry::Fatal).await.unwrap();
        let mut conn = connection().await;
        let text = format!("select *, priority::text as p from {}.tasks order by id", schema.name);
        let rows = sqlx::query(&text).fetch_all(&mut conn).await.unwrap();
        let seen = |at: usize, column: &str| rows[at].get::<String, _>(column);
        assert_eq!([seen(0, "queue"), seen(0, "name"), seen(0, "state"), seen(0, "p")], ["q", "mail", "dead", "7"]);
        assert_eq!([seen(0, "idempotency_key"), seen(0, "last_failure")], ["k", "the bank is busy"]);
        assert_eq!((seen(0, "payload").len(), seen(1, "state")), (2_002, "scheduled".to_owned()));
        let write = format!("update {}.tasks set name = 'x'", schema.name);
        assert!(conn.execute(write.as_str()).await.is_err(), "it is to read only");
    });
}

#[test]
fn a_trigger_enqueues_with_the_row_that_it_is_about() {
    on_a_schema(async |schema| {
        let queue = schema.store.db().queue("mail").unwrap();
        let sql = "create table S.customer (id int, address text);
            create function S.welcome() returns trigger language plpgsql as $$
            begin
                perform S.enqueue_one('mail', 'mail.welcome', json_build_object('to', new.address)::text,
                    idempotency_key => 'welcome:' || new.id, priority => 18446744073709551615);
                return new;
            end $$;
            create trigger welcome after insert on S.customer for each row execute function S.welcome();";
        let mut conn = connection().await;
        conn.execute(sql.replace("S.", &format!("{}.", schema.name)).as_str()).await.unwrap();
        let insert =
            |rest: &str| format!("begin; insert into {}.customer values (1, 'ada@example.org'); {rest}", schema.name);
        conn.execute(insert("rollback").as_str()).await.unwrap();
        assert!(claim(&queue, 9).await.is_empty());
        conn.execute(insert("commit").as_str()).await.unwrap();
        conn.execute(insert("commit").as_str()).await.unwrap();
        let claimed = claim(&queue, 9).await;
        assert_eq!((claimed.len(), claimed[0].priority, &*claimed[0].name), (1, u64::MAX, "mail.welcome"));
        assert_eq!(claimed[0].payload.to::<serde_json::Value>().unwrap()["to"], "ada@example.org");
        for wrong in
            ["'', 'n', '1'", "'q', 'n', '{'", "'q', E'a\\nb', '1'", "'q', 'n', '1', ''", "'q', 'n', '1', null, -1"]
        {
            let call = format!("select {}.enqueue_one({wrong})", schema.name);
            assert!(conn.execute(call.as_str()).await.is_err(), "{wrong}");
        }
    });
}

#[test]
fn c50_texts_that_a_server_cannot_hold_are_treated_as_the_embedded_store_treats_them() {
    on_a_schema(async |schema| {
        let embedded = Db::memory().unwrap();
        for text in
            ["a\0b", "\u{1F600}", "\u{202E}x\u{2066}", "\u{FFFE}", "\u{E000}", "\\u0000", "\\ud800", "\r\n\t\u{1b}[31m"]
        {
            let mut answers = Vec::new();
            for db in [&schema.store.db(), &embedded] {
                let queue = db.queue("q").unwrap();
                let raw = aedb_queue::Json::parse(format!("\"{text}\""));
                let mut seen = vec![format!(
                    "{:?}",
                    raw.as_ref().map(|raw| raw.as_str().to_owned()).map_err(aedb_queue::Error::kind)
                )];
                if let Ok(raw) = raw {
                    queue.enqueue(NewTask::with_json("n", raw)).await.unwrap();
                } else {
                    queue.enqueue(NewTask::new("n", text).unwrap()).await.unwrap();
                }
                let claimed = claim(&queue, 1).await;
                seen.push(claimed[0].payload.as_str().to_owned());
                let _ = queue.fail_with(&claimed[0], text, aedb_queue::Retry::Fatal).await.unwrap();
                let record = queue.get(claimed[0].id).await.unwrap().unwrap();
                seen.push(record.failures[0].error.to_string());
                let named = db.queue(text).map(drop).map_err(|error| error.kind());
                let keyed =
                    queue.enqueue(task(1).idempotency_key(text)).await.map(|_| ()).map_err(|error| error.kind());
                let owned =
                    queue.claim(aedb_queue::ClaimRequest::new(text, aedb_queue::LeaseLength::secs(30)).max(9)).await;
                seen.push(format!("{named:?} {keyed:?} {:?}", owned.map(|c| c.len()).map_err(|error| error.kind())));
                answers.push(seen);
            }
            assert_eq!(answers[0], answers[1], "{text:?}");
        }
    });
}

#[test]
fn passwords_are_in_no_error_and_no_debug_text() {
    aedb_tests::server::runtime().block_on(async {
        let secret = "Tr0ub4dor";
        let port = address().rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
        for url in [
            format!("postgres://nobody:{secret}@127.0.0.1:{port}/postgres"),
            format!("postgres://aedb:{secret}@127.0.0.1:{port}/no_such_database"),
            format!("postgres://aedb:{secret}@127.0.0.1:99999/postgres"),
            format!("postgres://aedb:{secret}@127.0.0.1:{port}/postgres?sslmode=what"),
            format!("postgres://aedb:{secret}@127.0.0.1:{port}/postgres?sslmode=verify-full"),
            format!("mysql://aedb:{secret}@localhost/x"),
            format!("postgres://aedb:{secret}@[::bad/x"),
        ] {
            let error = Db::connect(&url).await.map(drop).unwrap_err();
            let mut said = format!("{error} {error:?}");
            let mut cause = std::error::Error::source(&error);
            while let Some(deeper) = cause {
                said.push_str(&format!(" {deeper} {deeper:?}"));
                cause = deeper.source();
            }
            assert!(!said.contains(secret), "{said}");
            assert!(
                matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unavailable | ErrorKind::PermissionDenied),
                "{said}"
            );
        }
        let url = address().replace("aedb@", &format!("aedb:{secret}@"));
        let store = Db::builder().schema("secret").postgres(&url).await.unwrap();
        let said = format!("{store:?} {:?} {:?}", store.db(), Db::builder());
        assert!(!said.contains(secret), "{said}");
        connection().await.execute("set client_min_messages = error; drop schema secret cascade").await.unwrap();
    });
}
