//! Opening a database on a PostgreSQL server.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::runtime::Handle;

use super::clock::ServerClock;
use super::fault::Fault;
use super::hints::Hints;
use super::queues::Numbers;
use super::{Inner, PgStore, migrate};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::time::Timestamp;

/// A connection that was idle longer than this is tried before it is used.
const IDLE: Duration = Duration::from_secs(1);

/// What [`DbBuilder`](crate::DbBuilder) says about a server.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) schema: String,
    pub(crate) connections: u32,
    pub(crate) migrates: bool,
    pub(crate) callers_required: bool,
    /// A clock of the tests; otherwise the server's rules.
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

pub(crate) async fn connect(url: &str, settings: Settings) -> Result<PgStore> {
    let schema = check_name(settings.schema)?;
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::invalid(format!("not an address of a PostgreSQL server: {error}")).caused_by(error))?
        .application_name("aedb-queue");
    let runtime = Handle::try_current()
        .map_err(|error| Error::invalid("a server is connected to within a tokio runtime").caused_by(error))?;
    let pool = PgPoolOptions::new()
        .max_connections(settings.connections.max(1))
        .acquire_timeout(Duration::from_secs(10))
        .test_before_acquire(false)
        .before_acquire(|conn, meta| {
            Box::pin(async move {
                if meta.idle_for > IDLE {
                    conn.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(options.clone());
    let store = PgStore(Arc::new(Inner {
        pool,
        options,
        runtime,
        schema,
        clock: settings.clock,
        server_clock: Arc::new(ServerClock::default()),
        callers_required: settings.callers_required,
        numbers: Numbers::default(),
        hints: Hints::default(),
    }));
    store.open(settings.migrates).await.map_err(Fault::not_applied)?;
    store.start_telling();
    if let Some(clock) = &store.0.clock {
        let inner = Arc::downgrade(&store.0);
        clock.on_move(Arc::new(move || {
            if let Some(store) = inner.upgrade() {
                store.hints.wake_all();
            }
        }));
    }
    Ok(store)
}

impl PgStore {
    async fn open(&self, migrates: bool) -> Result<(), Fault> {
        let mut conn = self.0.pool.acquire().await?;
        if migrates {
            migrate::migrate(&mut conn, &self.0.schema).await?;
        }
        migrate::check(&mut conn, &self.0.schema).await?;
        let before = SystemClock.now();
        let server: i64 = sqlx::query_scalar(&self.sql("select aedb.clock()")).fetch_one(&mut *conn).await?;
        self.0.server_clock.set(before, Timestamp::from_micros(super::number::from_sql(server)));
        Ok(())
    }
}

/// A schema's name is part of statements, so it is a plain word.
fn check_name(schema: String) -> Result<String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && schema.len() <= 48 && schema.chars().all(is_word) && !schema.starts_with("pg_") {
        return Ok(schema);
    }
    Err(Error::invalid(format!(
        "the schema {schema:?} is not a word of up to 48 small letters, digits and underscores"
    )))
}
