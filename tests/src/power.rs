//! A disk under a machine that loses power: what was synced is there afterwards, and of the rest whatever the disk likes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use aedb_queue::{Clock, Db};
use redb::StorageBackend;

use crate::Dice;

/// What a disk writes as a whole or not at all.
const SECTOR: usize = 512;

/// A disk with a cache that forgets.
#[derive(Debug, Clone, Default)]
pub struct LosingDisk(Arc<Mutex<Bytes>>);

#[derive(Debug, Default)]
struct Bytes {
    /// What a read sees.
    cached: Vec<u8>,
    /// What is there for certain.
    synced: Vec<u8>,
    /// What was written since the last sync, in order.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// Steps until the power is lost.
    left: Option<u64>,
    /// It has no room to grow.
    full: bool,
    refused: u64,
}

/// What became of the sectors that were written and not synced when the power was lost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lost {
    /// They got there all the same.
    pub kept: u64,
    /// They did not.
    pub gone: u64,
}

impl LosingDisk {
    fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap()
    }

    /// Opens the database on it, as a program does that was started anew.
    pub fn open(&self, clock: &(impl Clock + Clone + 'static)) -> Db {
        self.bytes().left = None;
        Db::builder().clock(clock.clone()).inline().backend(self.clone()).unwrap()
    }

    /// Lets the power last for so many more writes, syncs and changes of length.
    pub fn fail_after(&self, steps: u64) {
        self.bytes().left = Some(steps);
    }

    /// Whether nothing more can be written.
    pub fn is_dead(&self) -> bool {
        self.bytes().left == Some(0)
    }

    /// Takes the room to grow away, or gives it back. Answers how often growth was refused.
    pub fn fill(&self, full: bool) -> u64 {
        let mut bytes = self.bytes();
        bytes.full = full;
        std::mem::take(&mut bytes.refused)
    }

    /// Turns the power on again: of each sector that was written and not synced, the dice say whether it got there, whatever
    /// the order was.
    pub fn come_back(&self, dice: &mut Dice) -> Lost {
        let (bytes, mut lost) = (&mut *self.bytes(), Lost::default());
        for (start, data) in std::mem::take(&mut bytes.unsynced) {
            let (mut at, all) = (start, start + data.len());
            while at < all {
                let end = all.min((at / SECTOR + 1) * SECTOR);
                if dice.roll(2) == 0 && end <= bytes.synced.len() {
                    bytes.synced[at..end].copy_from_slice(&data[at - start..end - start]);
                    lost.kept += 1;
                } else {
                    lost.gone += 1;
                }
                at = end;
            }
        }
        bytes.cached.clone_from(&bytes.synced);
        bytes.left = Some(0);
        lost
    }
}

impl Bytes {
    fn spend(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => return Err(io::Error::other("the power is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }
}

impl StorageBackend for LosingDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.bytes().cached[at..at + out.len()]);
        Ok(())
    }

    /// A file's length is the file system's own, which keeps it in a journal.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let (len, bytes) = (usize::try_from(len).unwrap(), &mut *self.bytes());
        bytes.spend()?;
        if bytes.full && len > bytes.cached.len() {
            bytes.refused += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.cached.resize(len, 0);
        bytes.synced.resize(len, 0);
        for (at, data) in &mut bytes.unsynced {
            data.truncate(len.saturating_sub(*at));
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let bytes = &mut *self.bytes();
        bytes.spend()?;
        for (at, data) in std::mem::take(&mut bytes.unsynced) {
            bytes.synced[at..at + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (at, bytes) = (usize::try_from(offset).unwrap(), &mut *self.bytes());
        bytes.spend()?;
        bytes.cached[at..at + data.len()].copy_from_slice(data);
        bytes.unsynced.push((at, data.to_vec()));
        Ok(())
    }
}
