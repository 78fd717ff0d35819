//! redb as the engine's disk: one table of bytes to bytes, one write transaction a turn.
//!
//! After a failed write or fsync nothing is acknowledged any more until the database is opened anew: what the operating
//! system did with the pages it could not write is not known.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use redb::{
    Builder, Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageError, TableDefinition,
    TransactionError,
};

use super::apply::apply;
use super::drive::{CommitError, Drive};
use super::folder::sync_folder_of;
use super::overlay::Overlay;
use super::{Progress, ProgressFn, View, Visit};
use crate::error::{Error, ErrorKind, Result};

pub(super) const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("aedb-queue");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("aedb-queue-meta");
/// The format of keys and records that this version writes.
pub(super) const FORMAT: u64 = 1;
/// How long a commit waits for another process that holds the file's write lock.
const PATIENCE: Duration = Duration::from_secs(30);
/// Entries that a backup writes in one commit.
const BACKUP_STEP: u64 = 20_000;

/// An open redb database.
#[derive(Debug)]
pub(super) struct Disk {
    db: RwLock<Database>,
    shared: bool,
    broken: OnceLock<CommitError>,
}

struct TableView<'a, T>(&'a T);

impl<T: ReadableTable<&'static [u8], &'static [u8]>> View for TableView<'_, T> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key).map_err(storage)?.map(|value| value.value().to_vec()))
    }

    fn scan(&self, from: &[u8], until: &[u8], visit: Visit<'_>) -> Result<()> {
        for entry in self.0.range::<&[u8]>(from..until).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            if let ControlFlow::Break(()) = visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}

impl Disk {
    pub(super) fn new(db: Database, shared: bool) -> Self {
        Self { db: RwLock::new(db), shared, broken: OnceLock::new() }
    }

    /// Runs a batch in one write transaction and commits what it changed.
    fn commit(&self, batch: &mut dyn FnMut(&dyn View) -> Overlay) -> Result<(), CommitError> {
        if let Some(broken) = self.broken.get() {
            return Err(broken.clone());
        }
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        let txn = self.begin(&db)?;
        let written = (|| {
            let mut table = txn.open_table(TABLE).map_err(redb::Error::from)?;
            let overlay = batch(&TableView(&table));
            apply(&mut table, overlay.changes().iter())?;
            Ok::<_, redb::Error>(!overlay.changes().is_empty())
        })();
        match written {
            Ok(true) => txn.commit().map_err(|e| self.fail(ErrorKind::UnknownOutcome, e.into())),
            Ok(false) => txn.abort().map_err(|e| self.fail(ErrorKind::Unavailable, e.into())),
            Err(error) => Err(self.fail(ErrorKind::Unavailable, error)),
        }
    }

    /// Begins a write transaction, with patience for another process that is writing.
    fn begin(&self, db: &Database) -> Result<redb::WriteTransaction, CommitError> {
        if !self.shared {
            return db.begin_write().map_err(|e| self.fail(ErrorKind::Unavailable, e.into()));
        }
        let pause = Duration::from_micros(200);
        let tries = PATIENCE.as_micros() / pause.as_micros();
        for _ in 0..tries {
            match db.try_begin_write() {
                Ok(txn) => return Ok(txn),
                Err(TransactionError::WouldBlock) => thread::sleep(pause),
                Err(error) => return Err(self.fail(ErrorKind::Unavailable, error.into())),
            }
        }
        let message =
            format!("another process has held the file's write lock for over {PATIENCE:?}; nothing was applied");
        Err(CommitError { kind: ErrorKind::Unavailable, message })
    }

    /// Remembers that the disk failed; the batch that saw it gets `kind`, all later ones are told to reopen.
    fn fail(&self, kind: ErrorKind, error: redb::Error) -> CommitError {
        let later =
            format!("a write failed earlier ({error}); nothing more is accepted until the database is reopened");
        let _ = self.broken.set(CommitError { kind: ErrorKind::Unavailable, message: later });
        let what = if kind == ErrorKind::UnknownOutcome {
            "the commit may or may not have happened"
        } else {
            "nothing was applied"
        };
        CommitError { kind, message: format!("writing failed: {error}; {what}; reopen the database") }
    }

    fn copy_to(&self, path: &Path, progress: ProgressFn<'_>) -> Result<()> {
        let _ = std::fs::remove_file(path);
        let read =
            self.db.read().unwrap_or_else(PoisonError::into_inner).begin_read().map_err(|e| unavailable(e.into()))?;
        let source = read.open_table(TABLE).map_err(|e| unavailable(e.into()))?;
        let total = source.len().map_err(storage)?;
        let copy = Builder::new().set_cache_size(16 << 20).create(path).map_err(|e| unavailable(e.into()))?;
        let mut entries = source.range::<&[u8]>(..).map_err(storage)?;
        let mut done = 0;
        while done < total {
            let step = (|| {
                let txn = copy.begin_write()?;
                {
                    let mut table = txn.open_table(TABLE)?;
                    for entry in entries.by_ref().take(usize::try_from(BACKUP_STEP).unwrap_or(1)) {
                        let (key, value) = entry?;
                        table.insert(key.value(), value.value())?;
                        done += 1;
                    }
                }
                txn.commit()?;
                Ok::<_, redb::Error>(())
            })();
            step.map_err(unavailable)?;
            progress(Progress { done, total });
        }
        let finish = (|| {
            let txn = copy.begin_write()?;
            {
                txn.open_table(TABLE)?;
                let mut meta = txn.open_table(META)?;
                meta.insert("format", FORMAT)?;
                meta.insert("copy", 1)?;
            }
            txn.commit()?;
            Ok::<_, redb::Error>(())
        })();
        finish.map_err(unavailable)
    }
}

impl Drive for Disk {
    fn is_shared(&self) -> bool {
        self.shared
    }

    fn write(&self, _caller: Option<&str>, batch: &mut dyn FnMut(&dyn View) -> Overlay) -> Result<(), CommitError> {
        self.commit(batch)
    }

    fn view(&self, read: &mut dyn FnMut(&dyn View) -> Result<()>) -> Result<()> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        let txn = db.begin_read().map_err(|e| unavailable(e.into()))?;
        let table = txn.open_table(TABLE).map_err(|e| unavailable(e.into()))?;
        read(&TableView(&table))
    }

    fn backup(&self, to: &Path, progress: ProgressFn<'_>) -> Result<()> {
        if to.exists() {
            return Err(Error::invalid(format!("{} exists; a backup never overwrites", to.display())));
        }
        // The whole name with an end of ours, so that it is nobody else's file.
        let mut partial = to.as_os_str().to_owned();
        partial.push(".aedb-partial");
        let partial = PathBuf::from(partial);
        let copied = self.copy_to(&partial, progress);
        if copied.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        copied?;
        std::fs::rename(&partial, to)
            .map_err(|e| Error::new(ErrorKind::Unavailable, "the finished copy could not be renamed").caused_by(e))?;
        // As when a database is opened.
        let _ = sync_folder_of(to);
        Ok(())
    }

    fn compact(&self, progress: ProgressFn<'_>) -> Result<bool> {
        progress(Progress { done: 0, total: 1 });
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        let smaller = db.compact().map_err(|e| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the file cannot be compacted now: {e}; try when no other process uses it"),
            )
        })?;
        progress(Progress { done: 1, total: 1 });
        Ok(smaller)
    }
}

pub(super) fn storage(error: StorageError) -> Error {
    unavailable(error.into())
}

/// A read failed, or the database could not be opened.
pub(super) fn unavailable(error: redb::Error) -> Error {
    let kind = if matches!(error, redb::Error::Corrupted(_)) { ErrorKind::Corrupt } else { ErrorKind::Unavailable };
    Error::new(kind, format!("the database file cannot be used: {error}")).caused_by(error)
}
