//! What the store on PostgreSQL costs beside plain statements on narrow tables, on one server with fsync on, in one run.
//!
//! `cargo bench -p aedb-queue --features postgres --bench postgres` prints one table. It starts a server of its own, unless `AEDB_POSTGRES`
//! names one. Rounds of both alternate, since machines are noisy; the middle of their ratios counts.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time"
)]

mod backlog;
mod callers;
mod floor;
mod lifecycle;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use aedb_queue::{Db, NewTask};
use sqlx::{Connection, Executor, PgConnection};

/// A row of the table: what, how it came out, and what was asked for.
struct Row(String, String, String);

const PAYLOAD: usize = 128;
const BATCH: usize = 500;

fn task() -> NewTask {
    NewTask::new("bench.task", &"x".repeat(PAYLOAD)).unwrap()
}

fn address() -> String {
    std::env::var("AEDB_POSTGRES").unwrap()
}

async fn connection() -> PgConnection {
    PgConnection::connect(&address()).await.unwrap()
}

/// A database in a new schema.
async fn db(schema: &str, connections: u32) -> Db {
    connection()
        .await
        .execute(format!("set client_min_messages = error; drop schema if exists {schema} cascade").as_str())
        .await
        .unwrap();
    Db::builder()
        .schema(schema)
        .connections(connections)
        .patience(Duration::from_mins(10))
        .connect(&address())
        .await
        .unwrap()
}

/// What is in the middle.
fn middle<T: PartialOrd + Copy>(values: &mut [T]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap());
    values[values.len() / 2]
}

/// Bytes of the log of changes so far.
async fn wal() -> f64 {
    let text = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
    sqlx::query_scalar(text).fetch_one(&mut connection().await).await.unwrap()
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Runs this again beside a server that goes with it.
fn beside_a_server() {
    let script = "source \"$0\" && trap stop_postgres EXIT && start_postgres && \"$@\"";
    let postgres = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/postgres.sh");
    let me = std::env::current_exe().unwrap();
    let ran = Command::new("bash").args(["-c", script]).arg(postgres).arg(me).args(std::env::args().skip(1)).status();
    std::process::exit(ran.unwrap().code().unwrap_or(1));
}

fn main() {
    if std::env::var("AEDB_POSTGRES").is_err() {
        return beside_a_server();
    }
    let quick = std::env::args().any(|arg| arg == "--quick");
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut rows = Vec::new();
    let wants = |part: &str| only.as_deref().is_none_or(|only| only == part);
    runtime.block_on(async {
        if wants("lifecycle") {
            rows.extend(lifecycle::run(quick).await);
        }
        if wants("callers") {
            rows.extend(callers::run(quick).await);
        }
        if wants("backlog") {
            rows.extend(backlog::run(quick).await);
        }
    });
    println!("\n| measured | result | wanted |\n|---|---|---|");
    for Row(what, result, wanted) in rows {
        println!("| {what} | {result} | {wanted} |");
    }
}
