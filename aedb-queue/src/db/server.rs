//! Opening a database on a PostgreSQL server (feature `postgres`).

use super::{Db, DbBuilder};
use crate::error::Result;
use crate::postgres::{self, PgStore, Settings};

/// What only a server needs to be told.
#[derive(Debug)]
pub(super) struct Server {
    schema: String,
    connections: u32,
}

impl Default for Server {
    fn default() -> Self {
        Self { schema: "aedb".to_owned(), connections: 10 }
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
            migrates: self.create,
            callers_required: self.callers_required,
            clock: self.clock,
        };
        postgres::connect(url, settings).await
    }
}
