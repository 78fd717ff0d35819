//! How the tests open a store, and which one a test is on.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use aedb_queue::{Db, DbBuilder, ManualClock};

/// An empty database, and what must outlive it: its folder, its schema, its server.
pub struct Opened {
    /// The database.
    pub db: Db,
    /// Dropped after it.
    pub kept: Box<dyn Any + Send + Sync>,
}

/// Opens empty databases of one store.
pub trait Opens: Send + Sync {
    /// What the store is called in the names of tests.
    fn name(&self) -> &str;

    /// Opens one on a clock that moves when it is told to, with whatever else the builder says.
    fn open(&self, builder: DbBuilder) -> Opened;

    /// Whether it is a server: then what wakes a waiting call takes a moment.
    fn is_served(&self) -> bool {
        false
    }

    /// One of so many repetitions is run where each call waits for a disk or a server: the order of verbs matters as much in memory.
    fn one_of(&self) -> u64 {
        1
    }

    /// Why a rule, by its file and name, is not for this store, if so: the rule is listed as ignored.
    fn excuse(&self, _rule: &str) -> Option<&'static str> {
        None
    }

    /// Why it cannot be opened on this machine, if so.
    fn is_away(&self) -> Option<String> {
        None
    }
}

thread_local! {
    static STORE: RefCell<Option<Arc<dyn Opens>>> = const { RefCell::new(None) };
}

/// Lets a test open its databases on a store.
pub fn on(store: &Arc<dyn Opens>, test: impl FnOnce()) {
    STORE.set(Some(Arc::clone(store)));
    test();
    STORE.set(None);
}

/// The store that this thread's test is on; by itself that is memory.
pub(crate) fn current() -> Arc<dyn Opens> {
    STORE.with_borrow(Clone::clone).unwrap_or_else(|| Arc::new(Embedded::Memory))
}

/// The stores of one file, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embedded {
    /// In memory.
    Memory,
    /// A file that processes may share.
    File,
    /// A file of one process.
    Exclusive,
}

impl Opens for Embedded {
    fn name(&self) -> &str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Exclusive => "exclusive",
        }
    }

    fn open(&self, builder: DbBuilder) -> Opened {
        let builder = builder.inline();
        if *self == Self::Memory {
            return Opened { db: builder.memory().unwrap(), kept: Box::new(()) };
        }
        let builder = if *self == Self::Exclusive { builder.exclusive() } else { builder };
        let folder = tempfile::tempdir().unwrap();
        Opened { db: builder.open(folder.path().join("shop.db")).unwrap(), kept: Box::new(folder) }
    }

    fn one_of(&self) -> u64 {
        if *self == Self::Memory { 1 } else { 20 }
    }
}

/// PostgreSQL, on the server that `AEDB_POSTGRES` names.
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, Copy)]
pub struct Postgres;

#[cfg(feature = "postgres")]
impl Opens for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn open(&self, builder: DbBuilder) -> Opened {
        let schema = crate::server::Schema::open_relaxed(builder);
        Opened { db: schema.store.db(), kept: Box::new(schema) }
    }

    fn is_served(&self) -> bool {
        true
    }

    fn one_of(&self) -> u64 {
        200
    }

    fn is_away(&self) -> Option<String> {
        let named = std::env::var_os("AEDB_POSTGRES").is_some();
        (!named).then(|| "AEDB_POSTGRES names no server; tests/run starts one".to_owned())
    }
}

/// An AEDB instance of its own.
#[cfg(feature = "aedb")]
#[derive(Debug, Clone, Copy)]
pub struct Aedb;

#[cfg(feature = "aedb")]
impl Opens for Aedb {
    fn name(&self) -> &'static str {
        "aedb"
    }

    fn open(&self, builder: DbBuilder) -> Opened {
        let (db, folder) = crate::instance::fresh(builder.inline());
        Opened { db, kept: Box::new(folder) }
    }

    fn excuse(&self, rule: &str) -> Option<&'static str> {
        let grants = rule.contains("grant") || rule.contains("a_caller_appends");
        grants.then_some("AEDB keeps permissions itself: tests/tests/aedb_callers.rs")
    }

    fn one_of(&self) -> u64 {
        20
    }
}

/// A builder with a clock that stands, and the clock.
pub(crate) fn on_a_manual_clock() -> (DbBuilder, ManualClock) {
    let clock = ManualClock::default();
    (Db::builder().clock(clock.clone()), clock)
}
