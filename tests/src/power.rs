//! A disk under a machine that loses power: what was synced is there afterwards, and of the rest whatever the disk likes.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use aedb_queue::{Db, ManualClock};
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
    /// What was written since the last sync.
    dirty: Vec<Range<usize>>,
    /// Steps until the power is lost.
    left: Option<u64>,
}

impl LosingDisk {
    /// Opens the database on it, as a program does that was started anew.
    pub fn open(&self, clock: &ManualClock) -> Db {
        self.0.lock().unwrap().left = None;
        Db::builder().clock(clock.clone()).inline().backend(self.clone()).unwrap()
    }

    /// Lets the power last for so many more writes, syncs and changes of length.
    pub fn fail_after(&self, steps: u64) {
        self.0.lock().unwrap().left = Some(steps);
    }

    /// Turns the power on again: of each sector that was written and not synced, the dice say whether it got there.
    pub fn come_back(&self, dice: &mut Dice) {
        let bytes = &mut *self.0.lock().unwrap();
        let (cached, synced) = (&bytes.cached, &mut bytes.synced);
        for range in std::mem::take(&mut bytes.dirty) {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min((at / SECTOR + 1) * SECTOR);
                if dice.roll(2) == 0 {
                    synced.resize(synced.len().max(end), 0);
                    synced[at..end].copy_from_slice(&cached[at..end]);
                }
                at = end;
            }
        }
        bytes.cached.clone_from(&bytes.synced);
        bytes.left = Some(0);
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
        Ok(self.0.lock().unwrap().cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.0.lock().unwrap().cached[at..at + out.len()]);
        Ok(())
    }

    /// A file's length is the file system's own, which keeps it in a journal.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let (len, bytes) = (usize::try_from(len).unwrap(), &mut *self.0.lock().unwrap());
        bytes.spend()?;
        bytes.cached.resize(len, 0);
        bytes.synced.resize(len, 0);
        bytes.dirty.iter_mut().for_each(|range| range.end = range.end.min(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let bytes = &mut *self.0.lock().unwrap();
        bytes.spend()?;
        for range in std::mem::take(&mut bytes.dirty).into_iter().filter(|range| !range.is_empty()) {
            bytes.synced[range.clone()].copy_from_slice(&bytes.cached[range]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (at, bytes) = (usize::try_from(offset).unwrap(), &mut *self.0.lock().unwrap());
        bytes.spend()?;
        bytes.cached[at..at + data.len()].copy_from_slice(data);
        bytes.dirty.push(at..at + data.len());
        Ok(())
    }
}
