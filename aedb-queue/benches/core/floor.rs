//! The floor: what redb alone takes for the key operations of each verb.

use std::path::Path;

use redb::{Builder, ConcurrencyMode, Database, Durability, ReadableTable, Table, TableDefinition};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("floor");

pub(crate) struct Floor {
    db: Database,
    next: u64,
}

fn key(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut key = b"\x07default\x07default\x00aedb:queue:\x00\x05bench".to_vec();
    key.push(kind);
    if kind == b'r' {
        key.extend_from_slice(b"\x0abench.task");
    }
    numbers.iter().for_each(|n| key.extend_from_slice(&n.to_be_bytes()));
    key
}

fn put(table: &mut Table<'_, &'static [u8], &'static [u8]>, key: &[u8], value: &[u8]) {
    table.insert(key, value).unwrap();
}

impl Floor {
    pub(crate) fn open(path: &Path) -> Self {
        let mut builder = Builder::new();
        builder.set_concurrency_mode(ConcurrencyMode::MultiWriter).set_cache_size(64 << 20);
        Self { db: builder.create(path).unwrap(), next: 1_800_000_000_000_000 }
    }

    fn commit(&self, work: impl FnOnce(&mut Table<'_, &'static [u8], &'static [u8]>)) {
        let mut txn = self.db.begin_write().unwrap();
        txn.set_durability(Durability::Immediate).unwrap();
        {
            let mut table = txn.open_table(TABLE).unwrap();
            let head = table.get(key(b'c', &[]).as_slice()).unwrap().map(|head| head.value().to_vec());
            put(&mut table, &key(b'c', &[]), &head.unwrap_or_else(|| vec![0; 20]));
            work(&mut table);
        }
        txn.commit().unwrap();
    }

    /// The writes of an enqueue: a record, an index entry, the last id.
    pub(crate) fn enqueue(&mut self, count: u64) -> Vec<u64> {
        let ids: Vec<u64> = (self.next..self.next + count).collect();
        self.next += count;
        self.commit(|table| {
            for id in &ids {
                put(table, &key(b'p', &[*id]), &[7; crate::PAYLOAD + 52]);
                put(table, &key(b'r', &[u64::MAX, *id]), &[]);
            }
            put(table, &key(b'n', &[]), &self.next.to_be_bytes());
        });
        ids
    }

    /// The reads and writes of a claim: find, read, index entry over, record again.
    pub(crate) fn claim(&self, count: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        self.commit(|table| {
            let found: Vec<Vec<u8>> = table
                .range::<&[u8]>(key(b'r', &[]).as_slice()..key(b's', &[]).as_slice())
                .unwrap()
                .take(count)
                .map(|entry| entry.unwrap().0.value().to_vec())
                .collect();
            for index in found {
                let id = u64::from_be_bytes(*index.last_chunk().unwrap());
                let record = table.get(key(b'p', &[id]).as_slice()).unwrap().unwrap().value().to_vec();
                table.remove(index.as_slice()).unwrap();
                put(table, &key(b'f', &[1, id]), &[]);
                put(table, &key(b'p', &[id]), &[record.as_slice(), &[0; 24]].concat());
                ids.push(id);
            }
        });
        ids
    }

    /// The reads and writes of a completion whose record is kept.
    pub(crate) fn complete(&self, ids: &[u64]) {
        self.commit(|table| {
            for id in ids {
                let record = table.get(key(b'p', &[*id]).as_slice()).unwrap().unwrap().value().to_vec();
                table.remove(key(b'f', &[1, *id]).as_slice()).unwrap();
                put(table, &key(b'd', &[2, *id]), &[]);
                put(table, &key(b'p', &[*id]), &record[..record.len() - 16]);
            }
        });
    }
}
