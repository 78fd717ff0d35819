//! Opening a database on a PostgreSQL server.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::runtime::Handle;

use super::clock::ServerClock;
use super::connections::Connections;
use super::gather::Gathering;
use super::hints::Hints;
use super::queues::Numbers;
use super::{Inner, PgStore, migrate};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// What the server is told of each connection: no wait for a lock is without end, and neither does a client that is gone hold
/// one for long. What the address says itself is left as it is.
const BOUNDS: [(&str, &str); 5] = [
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "60s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];

/// What [`DbBuilder`](crate::DbBuilder) says about a server.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) schema: String,
    pub(crate) connections: u32,
    pub(crate) behind_pooler: bool,
    pub(crate) patience: Duration,
    pub(crate) gathers: bool,
    pub(crate) migrates: bool,
    pub(crate) callers_required: bool,
    /// A clock of the tests; otherwise the server's rules.
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

pub(crate) async fn connect(url: &str, settings: Settings) -> Result<PgStore> {
    let schema = check_name(settings.schema)?;
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(Error::invalid("the address of a PostgreSQL server begins with postgres://"));
    }
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::invalid(format!("not an address of a PostgreSQL server: {error}")).caused_by(error))?
        .application_name("aedb-queue");
    let options = if settings.behind_pooler { options } else { bounds(options) };
    let runtime = Handle::try_current()
        .map_err(|error| Error::invalid("a server is connected to within a tokio runtime").caused_by(error))?;
    let store = PgStore(Arc::new(Inner {
        connections: Arc::new(Connections::new(options.clone(), settings.connections)),
        listens_by: (!settings.behind_pooler).then_some(options),
        runtime,
        schema,
        clock: settings.clock,
        server_clock: Arc::new(ServerClock::default()),
        callers_required: settings.callers_required,
        patience: settings.patience,
        numbers: Numbers::default(),
        hints: Hints::default(),
        gathers: settings.gathers && !settings.callers_required,
        gathering: Gathering::default(),
    }));
    store.open(settings.migrates).await?;
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

fn bounds(options: PgConnectOptions) -> PgConnectOptions {
    let said = options.get_options().unwrap_or_default().to_owned();
    options.options(BOUNDS.into_iter().filter(|(name, _)| !said.contains(name)))
}

impl PgStore {
    async fn open(&self, migrates: bool) -> Result<()> {
        if migrates {
            self.by_operator(&migrate::Migrate).await?;
        }
        self.by_operator(&migrate::Check).await
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
