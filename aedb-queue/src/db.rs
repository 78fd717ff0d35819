//! The database: where it is, how it is opened, and upkeep of the whole.

#[cfg(feature = "aedb")]
mod aedb;
#[cfg(feature = "postgres")]
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::engine::{self, Options, Place as Disk, Progress};
use crate::error::Result;
use crate::kv::{KvStore, keys};
use crate::lease::Lease;
use crate::model::limits;
use crate::queue::Queue;
use crate::scope::Scope;
use crate::store::{Access, GrantTarget, Store};

/// A durable queue database. Cheap to clone; the last clone that is dropped closes it.
///
/// ```
/// # futures::executor::block_on(async {
/// use aedb_queue::{Db, NewTask};
///
/// let db = Db::memory()?;
/// let queue = db.queue("mail")?;
/// let outcome = queue.enqueue(NewTask::new("mail.welcome", "ada@example.org")?).await?;
/// assert!(queue.get(outcome.id).await?.is_some());
/// # Ok::<(), aedb_queue::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Db {
    store: Arc<dyn Store>,
}

impl Db {
    /// Opens a file, or creates it. Several processes on one machine may open it at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is not an aedb-queue database or has a newer format,
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if its folder does not exist,
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if it cannot be written or another process has it exclusively,
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if it is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// A database in memory, gone when it is closed.
    ///
    /// # Errors
    ///
    /// None in practice; the signature is that of [`Db::open`].
    pub fn memory() -> Result<Self> {
        Self::builder().memory()
    }

    /// More ways to open.
    pub fn builder() -> DbBuilder {
        DbBuilder::default()
    }

    /// A database on a store of your own.
    pub fn with_store(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The scope `project/scope`: a namespace of queues, leases and application keys.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) unless both names have 1 to 255 bytes without control characters.
    pub fn scope(&self, project: &str, scope: &str) -> Result<Scope> {
        limits::name("project name", project)?;
        limits::name("scope name", scope)?;
        Ok(Scope::new(Arc::clone(&self.store), project, scope))
    }

    /// The scope `default/default`.
    pub fn default_scope(&self) -> Scope {
        Scope::new(Arc::clone(&self.store), "default", "default")
    }

    /// A queue of the default scope.
    ///
    /// # Errors
    ///
    /// As [`Scope::queue`].
    pub fn queue(&self, name: &str) -> Result<Queue> {
        self.default_scope().queue(name)
    }

    /// A lease of the default scope.
    ///
    /// # Errors
    ///
    /// As [`Scope::lease`].
    pub fn lease(&self, name: &str) -> Result<Lease> {
        self.default_scope().lease(name)
    }

    /// Sets or, with `None`, takes back what a caller may do with a target. The strongest grant that fits decides.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the caller's name is not acceptable.
    pub async fn grant(&self, caller: &str, target: GrantTarget, access: Option<Access>) -> Result<()> {
        limits::name("caller", caller)?;
        self.store.grant(caller, target, access).await
    }

    /// Copies the live database to a new file as of one instant; work goes on meanwhile. Blocks the calling thread.
    ///
    /// The copy opens like any database. Its tokens go on growing from above all that were ever handed out, so a worker of
    /// the original cannot write to it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the file exists, [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if it cannot be written; then nothing is left there.
    pub fn backup(&self, to: impl AsRef<Path>, mut progress: impl FnMut(Progress) + Send) -> Result<()> {
        self.store.backup(to.as_ref(), &mut progress)
    }

    /// Gives unused space of the file back to the file system. Blocks the calling thread, and all calls meanwhile.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) while another process uses the file.
    pub fn compact(&self, mut progress: impl FnMut(Progress) + Send) -> Result<bool> {
        self.store.compact(&mut progress)
    }

    /// The database's clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.store.clock()
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

/// How to open a [`Db`]. Each knob has a default.
#[derive(Debug)]
pub struct DbBuilder {
    cache_bytes: usize,
    clock: Option<Arc<dyn Clock>>,
    inline: bool,
    exclusive: bool,
    create: bool,
    callers_required: bool,
    #[cfg(feature = "aedb")]
    aedb: crate::engine::aedb::Attach,
    #[cfg(feature = "postgres")]
    server: server::Server,
}

impl Default for DbBuilder {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            clock: None,
            inline: false,
            exclusive: false,
            create: true,
            callers_required: false,
            #[cfg(feature = "aedb")]
            aedb: crate::engine::aedb::Attach::default(),
            #[cfg(feature = "postgres")]
            server: server::Server::default(),
        }
    }
}

impl DbBuilder {
    /// Memory for the page cache, by default 64 MiB.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Where time comes from, by default the operating system.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Commits each call on the caller's own thread, before it returns, so that a program runs the same way every time. For
    /// tests and simulations; by default a thread of the database gathers calls into commits.
    #[must_use]
    pub fn inline(mut self) -> Self {
        self.inline = true;
        self
    }

    /// Wants the file for this process alone. Commits cost one sync instead of two, and opening after a crash reads the whole
    /// file. By default processes share it.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Opens only what exists; by default a missing file is created.
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.create = false;
        self
    }

    /// Refuses calls that name no caller; by default they are allowed everything.
    #[must_use]
    pub fn callers_required(mut self) -> Self {
        self.callers_required = true;
        self
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// As [`Db::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        let (path, exclusive, create) = (PathBuf::from(path.as_ref()), self.exclusive, self.create);
        self.start(Disk::File { path, exclusive, create })
    }

    /// Opens a database in memory.
    ///
    /// # Errors
    ///
    /// As [`Db::memory`].
    pub fn memory(self) -> Result<Db> {
        self.start(Disk::Memory)
    }

    /// Opens a database on a disk of the caller's making, for tests that break it.
    ///
    /// # Errors
    ///
    /// As [`Db::open`].
    pub fn backend(self, backend: impl redb::StorageBackend) -> Result<Db> {
        self.start(Disk::Backend(Box::new(backend)))
    }

    fn start(self, disk: Disk) -> Result<Db> {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let options = Options {
            cache_bytes: self.cache_bytes,
            clock: Arc::clone(&clock),
            inline: self.inline,
            // Tokens handed out after a backup was taken must not come again (contract rule 5).
            first_opened: keys::token_floor(),
        };
        let engine = engine::open(disk, options)?;
        Ok(Db { store: Arc::new(KvStore::new(engine, clock, self.callers_required)) })
    }
}
