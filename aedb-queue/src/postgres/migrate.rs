//! Migrations: numbered, in one transaction under a lock, safe from several processes at once.
//!
//! A migration leaves workers of the version before running: it adds, and what it replaces stays for one version. Each says
//! the oldest program that can work with it.

use sqlx::{Connection, Executor, PgConnection};

use super::fault::Fault;
use super::pool::Verb;
use super::{PgStore, number, replace_schema};
use crate::clock::{Clock as _, SystemClock};
use crate::error::{Error, Result};

struct Migration {
    version: i32,
    /// The newest version that a program must know to work with this one.
    works_with: i32,
    parts: &'static [&'static str],
}

const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    works_with: 1,
    parts: &[
        include_str!("migrations/0001/tables.sql"),
        include_str!("migrations/0001/shared.sql"),
        include_str!("migrations/0001/enqueue.sql"),
        include_str!("migrations/0001/claim.sql"),
        include_str!("migrations/0001/settle.sql"),
        include_str!("migrations/0001/heartbeat.sql"),
        include_str!("migrations/0001/by_hand.sql"),
        include_str!("migrations/0001/sweep.sql"),
        include_str!("migrations/0001/inspect.sql"),
        include_str!("migrations/0001/app_keys.sql"),
        include_str!("migrations/0001/lease.sql"),
    ],
}];

fn newest() -> i32 {
    MIGRATIONS.last().map_or(0, |last| last.version)
}

/// Brings the schema up to date, as a call.
pub(super) struct Migrate;

impl Verb for Migrate {
    type Answer = ();
    /// Another process may be at it, or workers be in the way of a table's lock.
    const IS_LONG: bool = true;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<(), Fault> {
        migrate(conn, &store.0.schema).await
    }
}

/// Whether this program can work with the schema, and how far the server's clock is off this machine's.
pub(super) struct Check;

impl Verb for Check {
    type Answer = ();
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<(), Fault> {
        check(conn, &store.0.schema).await?;
        let before = SystemClock.now();
        let server: i64 = sqlx::query_scalar(&store.sql("select aedb.clock()")).fetch_one(conn).await?;
        store.0.server_clock.set(before, number::instant(server));
        Ok(())
    }
}

/// Brings the schema up to date. What another process has done meanwhile is not done again.
async fn migrate(conn: &mut PgConnection, schema: &str) -> Result<(), Fault> {
    let mut txn = conn.begin().await?;
    sqlx::query("set local lock_timeout = '5min'").execute(&mut *txn).await?;
    sqlx::query("select pg_advisory_xact_lock(hashtext('aedb migrate ' || $1))")
        .bind(schema)
        .execute(&mut *txn)
        .await?;
    let has = version(&mut txn, schema).await?;
    if has.is_none_or(|(has, _)| has < newest()) {
        let mut text = String::new();
        if has.is_none() {
            text.push_str(
                "create schema if not exists aedb;
                 create table aedb.migration (version int primary key, works_with int not null, at timestamptz default now());",
            );
        }
        // Functions name others that come later in the files.
        text.push_str("set local check_function_bodies = off;\n");
        for migration in MIGRATIONS.iter().filter(|migration| has.is_none_or(|(has, _)| migration.version > has)) {
            migration.parts.iter().for_each(|part| text.push_str(part));
            let (version, works_with) = (migration.version, migration.works_with);
            text.push_str(&format!("insert into aedb.migration values ({version}, {works_with});\n"));
        }
        txn.execute(replace_schema(&text, schema).as_str()).await?;
    }
    txn.commit().await?;
    Ok(())
}

/// Refuses a schema that is not there, is older, or is too new for this program.
async fn check(conn: &mut PgConnection, schema: &str) -> Result<(), Fault> {
    match version(conn, schema).await? {
        None => Err(Error::invalid(format!("there is no aedb-queue in the schema {schema}: migrate it")).into()),
        Some((has, _)) if has < newest() => {
            Err(Error::invalid(format!("the schema {schema} has version {has}, not {}: migrate it", newest())).into())
        }
        Some((has, needs)) if needs > newest() => {
            let message = format!("the schema {schema} has version {has}, which needs a newer program than this one");
            Err(Error::invalid(message).into())
        }
        Some(_) => Ok(()),
    }
}

/// The schema's version, and the newest that a program must know to work with it.
async fn version(conn: &mut PgConnection, schema: &str) -> Result<Option<(i32, i32)>, Fault> {
    let there: bool = sqlx::query_scalar("select to_regclass($1) is not null")
        .bind(replace_schema("aedb.migration", schema))
        .fetch_one(&mut *conn)
        .await?;
    if !there {
        return Ok(None);
    }
    let text = replace_schema("select max(version), max(works_with) from aedb.migration", schema);
    let (version, works_with): (Option<i32>, Option<i32>) = sqlx::query_as(&text).fetch_one(conn).await?;
    Ok(version.zip(works_with))
}
