//! The contract on PostgreSQL: one verb, one file, and its statements under `migrations/`.
//!
//! A task is a row that moves between narrow tables. Each verb is one call of a function in the schema, so that a batch costs
//! one round trip and plans are kept by the server; what refuses a stale token is the statement itself.

mod alarm;
mod app_keys;
mod by_hand;
mod claim;
mod clock;
mod connect;
mod connections;
mod enqueue;
mod fault;
mod gather;
mod grant;
mod heartbeat;
mod hints;
mod inspect;
mod lease;
mod list;
mod migrate;
mod number;
mod pool;
mod queues;
mod row;
mod settle;
mod store;
mod transaction;
mod upkeep;
mod wait;
mod workers;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::runtime::Handle;

use self::clock::ServerClock;
pub(crate) use self::connect::{Settings, connect};
use self::connections::Connections;
use self::fault::Fault;
use self::gather::Gathering;
use self::hints::Hints;
use self::queues::Numbers;
use crate::clock::Clock;
use crate::db::Db;
use crate::time::Timestamp;

/// A store in a schema of a PostgreSQL server. Cheap to clone.
///
/// [`Db::connect`](crate::Db::connect) is enough for most programs. This type adds what only a server can do: enqueue, settle and
/// guard inside of the program's own SQL transaction.
#[derive(Clone)]
pub struct PgStore(Arc<Inner>);

struct Inner {
    connections: Arc<Connections>,
    /// For the one connection more that listens; behind a pooler there is none.
    listens_by: Option<PgConnectOptions>,
    runtime: Handle,
    schema: String,
    clock: Option<Arc<dyn Clock>>,
    server_clock: Arc<ServerClock>,
    callers_required: bool,
    patience: Duration,
    numbers: Numbers,
    hints: Hints,
    gathers: bool,
    gathering: Gathering,
}

impl PgStore {
    /// The database on this store.
    pub fn db(&self) -> Db {
        Db::with_store(Arc::new(self.clone()))
    }

    /// Closes the connections: those that are in use when their calls have ended. Every later call is refused.
    pub async fn close(&self) {
        let connections = Arc::clone(&self.0.connections);
        // They belong to the runtime that they were opened on.
        drop(self.0.runtime.spawn(async move { connections.close().await }).await);
    }

    /// A statement, in this store's schema.
    fn sql(&self, text: &str) -> String {
        replace_schema(text, &self.0.schema)
    }

    /// The instant that a test's clock shows. Without one the server takes its own.
    fn test_now(&self) -> Option<i64> {
        self.0.clock.as_ref().map(|clock| number::to_sql(clock.now().as_micros()))
    }

    /// About the present instant on the server.
    fn now(&self) -> Timestamp {
        self.0.clock.as_ref().map_or_else(|| self.0.server_clock.now(), |clock| clock.now())
    }

    /// The present instant, asked from the server.
    async fn server_now(&self, conn: &mut PgConnection) -> Result<Timestamp, Fault> {
        match self.test_now() {
            Some(now) => Ok(number::instant(now)),
            None => Ok(number::instant(sqlx::query_scalar(&self.sql("select aedb.clock()")).fetch_one(conn).await?)),
        }
    }
}

impl fmt::Debug for PgStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgStore").field("schema", &self.0.schema).finish_non_exhaustive()
    }
}

/// The files and statements name the schema `aedb`. Quoted, since a plain word may mean something else to SQL.
fn replace_schema(text: &str, schema: &str) -> String {
    text.replace("aedb.", &format!("\"{schema}\"."))
        .replace("schema if not exists aedb;", &format!("schema if not exists \"{schema}\";"))
}
