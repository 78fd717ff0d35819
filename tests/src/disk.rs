//! A disk that fails after so many steps, and whose bytes outlive the database.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aedb_queue::{Db, ManualClock};
use redb::StorageBackend;

/// The bytes, and how many more writes, syncs and changes of length succeed.
#[derive(Debug, Clone)]
pub struct FailingDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    left: Arc<AtomicU64>,
}

impl Default for FailingDisk {
    fn default() -> Self {
        Self { bytes: Arc::default(), left: Arc::new(AtomicU64::new(u64::MAX)) }
    }
}

impl FailingDisk {
    /// Lets so many more steps succeed.
    pub fn allow(&self, steps: u64) {
        self.left.store(steps, Ordering::SeqCst);
    }

    /// Lets everything succeed again.
    pub fn mend(&self) {
        self.allow(u64::MAX);
    }

    /// Opens the database on it, as a program does that was started anew.
    pub fn open(&self, clock: &ManualClock) -> Db {
        self.mend();
        Db::builder().clock(clock.clone()).inline().backend(self.clone()).unwrap()
    }

    fn spend(&self) -> io::Result<()> {
        let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            u64::MAX => Some(u64::MAX),
            left => left.checked_sub(1),
        });
        spent.map(|_| ()).map_err(|_| io::Error::other("the disk is gone"))
    }
}

impl StorageBackend for FailingDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.bytes.lock().unwrap()[at..at + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend()?;
        self.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.spend()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend()?;
        let at = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}
