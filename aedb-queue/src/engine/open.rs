//! Opening a database: the file's place, its checks, and the first commit.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{Builder, ConcurrencyMode, Database, DatabaseError, ReadableTable, StorageBackend, StorageError};

use super::Engine;
use super::disk::{Disk, FORMAT, META, TABLE, unavailable};
use super::folder::sync_folder_of;
use super::threaded::Threaded;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

/// Where the bytes are.
pub(crate) enum Place {
    /// A file that several processes may open at once, or one that this process wants for itself.
    File { path: PathBuf, exclusive: bool, create: bool },
    /// In memory.
    Memory,
    /// A disk of the caller's.
    Backend(Box<dyn StorageBackend>),
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => path.fmt(f),
            Self::Memory => f.write_str("memory"),
            Self::Backend(backend) => backend.fmt(f),
        }
    }
}

/// How to open.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) cache_bytes: usize,
    pub(crate) clock: Arc<dyn Clock>,
    /// No thread: each verb is committed by the caller, before the call returns.
    pub(crate) inline: bool,
    /// The key that gets the present instant when a backup is opened for the first time.
    pub(crate) first_opened: Vec<u8>,
}

/// Opens or creates a database.
pub(crate) fn open(place: Place, options: Options) -> Result<Arc<dyn Engine>> {
    let name = format!("{place:?}");
    let mut builder = Builder::new();
    builder.set_cache_size(options.cache_bytes);
    let mut named = None;
    let (db, shared) = match place {
        Place::Memory => (builder.create_with_backend(InMemoryBackend::new()), false),
        Place::Backend(backend) => (Builder::create_with_backend_boxed(&builder, backend), false),
        Place::File { path, exclusive, create } => {
            if !exclusive {
                builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
            }
            let opened = if create { builder.create(&path) } else { builder.open(&path) };
            named = create.then_some(path);
            (opened, !exclusive)
        }
    };
    let db = db.map_err(|error| refused(&name, error))?;
    prepare(&db, &name, &options)?;
    if let Some(path) = named {
        // Also if the file was there: whoever created it may have died before this. A file system that cannot do it is no
        // reason not to open, as in SQLite.
        let _ = sync_folder_of(&path);
    }
    Ok(Threaded::start(Arc::new(Disk::new(db, shared)), options.clock, options.inline))
}

trait BoxedBackend {
    fn create_with_backend_boxed(&self, backend: Box<dyn StorageBackend>) -> Result<Database, DatabaseError>;
}

impl BoxedBackend for Builder {
    fn create_with_backend_boxed(&self, backend: Box<dyn StorageBackend>) -> Result<Database, DatabaseError> {
        self.create_with_backend(Boxed(backend))
    }
}

/// redb takes a backend by type; ours comes as a trait object.
#[derive(Debug)]
struct Boxed(Box<dyn StorageBackend>);

impl StorageBackend for Boxed {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }
    fn close(&self) -> std::io::Result<()> {
        self.0.close()
    }
}

/// Checks that the file is ours, creates what a new one lacks, and raises the token floor of a restored copy.
fn prepare(db: &Database, name: &str, options: &Options) -> Result<()> {
    let run = || -> Result<Result<()>, redb::Error> {
        let txn = db.begin_write()?;
        let tables: Vec<String> = txn.list_tables()?.map(|table| redb::TableHandle::name(&table).to_owned()).collect();
        let ours = tables.iter().any(|table| table == redb::TableHandle::name(&META));
        if !ours && !tables.is_empty() {
            txn.abort()?;
            return Ok(Err(Error::invalid(format!("{name} is a redb file of another program; choose another path"))));
        }
        let dirty = {
            let mut meta = txn.open_table(META)?;
            let format = meta.get("format")?.map(|format| format.value());
            if let Some(newer) = format.filter(|format| *format > FORMAT) {
                let message =
                    format!("{name} has format {newer} and this version reads up to {FORMAT}; use a newer aedb-queue");
                return Ok(Err(Error::invalid(message)));
            }
            let copy = meta.remove("copy")?.is_some();
            if format.is_none() {
                meta.insert("format", FORMAT)?;
            }
            let mut table = txn.open_table(TABLE)?;
            if copy {
                let now = options.clock.now().as_micros();
                table.insert(options.first_opened.as_slice(), now.to_be_bytes().as_slice())?;
            }
            copy || format.is_none()
        };
        if dirty {
            txn.commit()?
        } else {
            txn.abort()?
        }
        Ok(Ok(()))
    };
    run().map_err(unavailable)?
}

fn refused(name: &str, error: DatabaseError) -> Error {
    use std::io::ErrorKind as Io;
    let (kind, what) = match &error {
        DatabaseError::DatabaseAlreadyOpen => (
            ErrorKind::Unavailable,
            "is open elsewhere; one of the two wants it exclusively. Close the other, or open both shared".to_owned(),
        ),
        DatabaseError::UpgradeRequired(version) => {
            (ErrorKind::Invalid, format!("is a redb file of old format {version}; upgrade it with an older redb first"))
        }
        DatabaseError::Storage(StorageError::Io(io)) => match io.kind() {
            Io::InvalidData => (ErrorKind::Invalid, "is not an aedb-queue database; choose another path".to_owned()),
            Io::NotFound => (ErrorKind::NotFound, "does not exist, or its folder does not".to_owned()),
            Io::PermissionDenied | Io::ReadOnlyFilesystem => {
                (ErrorKind::Unavailable, "is not writable; check the permissions of the file and its folder".to_owned())
            }
            Io::StorageFull => {
                (ErrorKind::Unavailable, "is on a full disk; free some space and open it again".to_owned())
            }
            _ => (ErrorKind::Unavailable, format!("cannot be opened: {io}")),
        },
        DatabaseError::Storage(StorageError::Corrupted(what)) => {
            (ErrorKind::Corrupt, format!("is damaged: {what}; restore a backup"))
        }
        other => (ErrorKind::Unavailable, format!("cannot be opened: {other}")),
    };
    Error::new(kind, format!("{name} {what}")).caused_by(error)
}
