//! A schema of its own on the server that `AEDB_POSTGRES` names, for each test.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use aedb_queue::{DbBuilder, PgStore};
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// The runtime that stores of the tests connect on.
pub fn runtime() -> &'static Runtime {
    &RUNTIME
}

/// The server's address. Without one the tests fail: that they did not run must not look as if they passed.
pub fn address() -> String {
    std::env::var("AEDB_POSTGRES").unwrap_or_else(|_| {
        panic!(
            "AEDB_POSTGRES names no server, as in postgres://user@127.0.0.1:5432/postgres; \
             tests/run starts one, or: source tests/postgres.sh && start_postgres"
        )
    })
}

/// A store in a new schema, which goes when this does.
#[derive(Debug)]
pub struct Schema {
    /// The store.
    pub store: PgStore,
    /// The schema's name.
    pub name: String,
}

impl Schema {
    /// A new one, opened as the builder says.
    pub fn open(builder: DbBuilder) -> Self {
        Self::open_at(builder, &address())
    }

    /// The same whose commits do not wait for the disk: for tests in which no server dies.
    pub fn open_relaxed(builder: DbBuilder) -> Self {
        let address = address();
        let more = if address.contains('?') { '&' } else { '?' };
        Self::open_at(builder, &format!("{address}{more}options=-csynchronous_commit%3Doff"))
    }

    fn open_at(builder: DbBuilder, address: &str) -> Self {
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        let store = runtime().block_on(builder.schema(&name).connections(4).postgres(address)).unwrap();
        Self { store, name }
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let text = format!("drop schema {} cascade", self.name);
        let dropped = runtime().block_on(async {
            // What a test left behind, such as claims that are given back, must not stop it.
            let text = format!("set lock_timeout = '5s'; set client_min_messages = error; {text}");
            sqlx::raw_sql(&text).execute(&mut PgConnection::connect(&address()).await?).await
        });
        runtime().block_on(self.store.close());
        if !std::thread::panicking() {
            dropped.unwrap();
        }
    }
}
