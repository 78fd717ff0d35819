//! Opening a database on a PostgreSQL server (feature `postgres`).

use std::time::Duration;

use super::{Db, DbBuilder};
use crate::error::Result;
use crate::postgres::{self, PgStore, Settings};

/// What only a server needs to be told.
#[derive(Debug)]
pub(super) struct Server {
    schema: String,
    connections: u32,
    behind_pooler: bool,
    patience: Duration,
    gathers: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            schema: "aedb".to_owned(),
            connections: 10,
            behind_pooler: false,
            patience: Duration::from_secs(30),
            gathers: false,
        }
    }
}

impl Db {
    /// Connects to a PostgreSQL server, 15 or newer, and brings the schema `aedb` up to date.
    ///
    /// Call it within a tokio runtime, which must live as long as the database; the other calls may come from any.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), aedb_queue::Error> {
    /// use aedb_queue::{Db, NewTask};
    ///
    /// let db = Db::connect("postgres://app@localhost/shop").await?;
    /// db.queue("mail")?.enqueue(NewTask::new("mail.welcome", "ada@example.org")?).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the address is not one, or the schema is newer than this program can work with,
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the server cannot be reached or may not be changed.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder().connect(url).await
    }
}

impl DbBuilder {
    /// The schema that holds the database on a server, by default `aedb`: up to 48 small letters, digits and underscores.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.server.schema = schema.into();
        self
    }

    /// How many connections to a server are used at most, by default 10, and one more that listens.
    #[must_use]
    pub fn connections(mut self, connections: u32) -> Self {
        self.server.connections = connections;
        self
    }

    /// How long one call to a server may take before it is given up, by default 30 s. Then a write's outcome is unknown.
    ///
    /// A wait for a connection ends after 10 s and one for a lock after 10 s, whatever this says. Checks and migrations have an hour.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.server.patience = patience;
        self
    }

    /// Lets enqueues of this process that are under way at the same time share a commit: many callers of one task each then cost the server
    /// what one batch costs.
    ///
    /// Each is answered for itself, after the commit. Nobody waits for company. If the answer to a commit is lost, all that shared it are
    /// told that their outcome is unknown. Enqueues with effects, and those of a caller, go by themselves.
    #[must_use]
    pub fn gather_enqueues(mut self) -> Self {
        self.server.gathers = true;
        self
    }

    /// The address is that of a pooler that lends a server's connection for one transaction at a time, such as PgBouncer.
    ///
    /// Then there is no `LISTEN`, so that a waiting claim finds what other processes enqueue by its poll, every half second; and
    /// the bounds on waits that the server is told of each connection, such as `lock_timeout`, are left to its configuration. The pooler must
    /// keep prepared statements apart, as PgBouncer does from 1.21 on with `max_prepared_statements`.
    #[must_use]
    pub fn behind_pooler(mut self) -> Self {
        self.server.behind_pooler = true;
        self
    }

    /// Connects to a server. With [`DbBuilder::existing`] the schema is not brought up to date, only checked.
    ///
    /// The server's clock rules. A [`DbBuilder::clock`] takes its place, for tests of one process: its instant goes with every call.
    ///
    /// # Errors
    ///
    /// As [`Db::connect`].
    pub async fn connect(self, url: &str) -> Result<Db> {
        Ok(self.postgres(url).await?.db())
    }

    /// The same, as the store that also works inside of the program's own SQL transactions.
    ///
    /// # Errors
    ///
    /// As [`Db::connect`].
    pub async fn postgres(self, url: &str) -> Result<PgStore> {
        let settings = Settings {
            schema: self.server.schema,
            connections: self.server.connections,
            behind_pooler: self.server.behind_pooler,
            patience: self.server.patience,
            gathers: self.server.gathers,
            migrates: self.create,
            callers_required: self.callers_required,
            clock: self.clock,
        };
        postgres::connect(url, settings).await
    }
}
