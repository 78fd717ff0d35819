//! The store's own connections: as many as are allowed, opened when used, and every wait for one is bounded.
//!
//! The one that was used last is lent first, so that few of them stay warm. Only a connection whose last call ended in order
//! comes back; any other is closed at once, and with it whatever it still had open on the server.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::clock::monotonic;

/// How long a call waits for a connection, the time to open one included.
const LEND: Duration = Duration::from_secs(10);
/// How long one try to open a connection may take.
const OPEN: Duration = Duration::from_secs(5);
/// The longest pause between two tries while the server refuses.
const PAUSE: Duration = Duration::from_millis(500);
/// A connection that was idle longer than this is tried before it is used, for so long at most.
const IDLE: Duration = Duration::from_secs(1);
/// A connection is closed after this age, since what the server remembers of it only grows, or after being idle for this long.
const AGE: [Duration; 2] = [Duration::from_mins(30), Duration::from_mins(5)];

/// The connections that are lent out, and those that are not.
#[derive(Debug)]
pub(super) struct Connections {
    options: PgConnectOptions,
    idle: Mutex<Vec<Idle>>,
    permits: Arc<Semaphore>,
}

#[derive(Debug)]
struct Idle {
    conn: PgConnection,
    born: Instant,
    since: Instant,
}

/// A connection on loan. It is closed when dropped, unless it was [kept](Lent::keep).
pub(super) struct Lent {
    pub(super) conn: PgConnection,
    born: Instant,
    home: Arc<Connections>,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    pub(super) fn new(options: PgConnectOptions, most: u32) -> Self {
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { options, idle: Mutex::default(), permits: Arc::new(Semaphore::new(most)) }
    }

    /// Lends one: the warmest that answers, or a new one.
    pub(super) async fn lend(self: &Arc<Self>) -> Result<Lent, sqlx::Error> {
        let permit = within(LEND, async {
            Arc::clone(&self.permits).acquire_owned().await.map_err(|_closed| sqlx::Error::PoolClosed)
        })
        .await?;
        while let Some(mut found) = self.warmest() {
            if found.since.elapsed() < IDLE || within(IDLE, found.conn.ping()).await.is_ok() {
                return Ok(Lent { conn: found.conn, born: found.born, home: Arc::clone(self), _permit: permit });
            }
        }
        let conn = within(LEND, self.open()).await?;
        Ok(Lent { conn, born: monotonic(), home: Arc::clone(self), _permit: permit })
    }

    /// Opens one, and tries again while there is no server, or none that is ready.
    async fn open(&self) -> Result<PgConnection, sqlx::Error> {
        let mut pause = Duration::from_millis(20);
        loop {
            match within(OPEN, PgConnection::connect_with(&self.options)).await {
                Err(error) if is_passing(&error) => sleep(pause).await,
                opened => return opened,
            }
            pause = (pause * 2).min(PAUSE);
        }
    }

    fn warmest(&self) -> Option<Idle> {
        self.idle().pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes those that are idle; those on loan are closed when they come back.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        for Idle { conn, .. } in idle {
            // Whether or not the server hears of it, the connection is gone.
            drop(timeout(IDLE, conn.close()).await);
        }
    }
}

impl Lent {
    /// Gives it back, after a call that ended in order.
    pub(super) fn keep(self) {
        let now = monotonic();
        let [oldest, longest] = AGE;
        let mut idle = self.home.idle();
        idle.retain(|other| now.duration_since(other.since) < longest);
        if now.duration_since(self.born) < oldest && !self.home.permits.is_closed() {
            idle.push(Idle { conn: self.conn, born: self.born, since: now });
        }
    }
}

/// The server is starting, stopping, or full, or there is nobody behind its address.
fn is_passing(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| code.starts_with("57P") || code == "53300"),
        _ => false,
    }
}

/// A wait with an end.
async fn within<T>(bound: Duration, what: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    timeout(bound, what).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
