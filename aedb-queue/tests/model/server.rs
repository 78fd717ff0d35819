//! A schema of its own on the server that `AEDB_POSTGRES` names.

use std::sync::LazyLock;

use aedb_queue::{Db, DbBuilder, Result};
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

/// Commits need not wait for the disk: no server dies here.
fn address() -> String {
    let named = std::env::var("AEDB_POSTGRES")
        .unwrap_or_else(|_| panic!("AEDB_POSTGRES names no server; tests/run starts one"));
    let more = if named.contains('?') { '&' } else { '?' };
    format!("{named}{more}options=-csynchronous_commit%3Doff")
}

pub(crate) struct Schema(String);

impl Schema {
    pub(crate) fn new() -> Self {
        Self(format!("model_{}", std::process::id()))
    }

    pub(crate) fn connect(&self, builder: DbBuilder) -> Result<Db> {
        RUNTIME.block_on(builder.schema(&self.0).connections(2).connect(&address()))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let text = format!("set client_min_messages = error; drop schema if exists {} cascade", self.0);
        let dropped = RUNTIME.block_on(async {
            let mut conn = PgConnection::connect(&address()).await?;
            sqlx::raw_sql(&text).execute(&mut conn).await
        });
        assert!(std::thread::panicking() || dropped.is_ok());
    }
}
