//! One verb's work in a scope: the transaction, with the counts and the last id kept in hand until the verb is done.

use std::collections::BTreeMap;

use super::codec;
use super::head::Head;
use super::keys::{self, QueueKeys, ScopeKeys};
use crate::engine::{Txn, View};
use crate::error::Result;
use crate::model::task::{FencingToken, TaskId};
use crate::store::Place;
use crate::time::Timestamp;

pub(crate) struct ScopeTxn<'a, 't> {
    pub(crate) txn: &'a mut Txn<'t>,
    pub(crate) now: Timestamp,
    pub(crate) keys: ScopeKeys,
    pub(crate) at: Place,
    pub(crate) callers_required: bool,
    heads: BTreeMap<QueueKeys, Held>,
    last_id: Option<u64>,
    floor: Option<FencingToken>,
}

struct Held {
    head: Head,
    stored: Option<Head>,
}

impl<'a, 't> ScopeTxn<'a, 't> {
    pub(crate) fn new(txn: &'a mut Txn<'t>, at: Place, callers_required: bool) -> Self {
        let (now, keys) = (txn.now(), ScopeKeys::new(&at.project, &at.scope));
        Self { txn, now, keys, at, callers_required, heads: BTreeMap::new(), last_id: None, floor: None }
    }

    /// A queue's counts, to read and to change.
    pub(crate) fn head(&mut self, queue: &QueueKeys) -> Result<&mut Head> {
        if !self.heads.contains_key(queue) {
            let stored = read_head(self.txn, queue)?;
            self.heads.insert(queue.clone(), Held { head: stored.unwrap_or_default(), stored });
        }
        let held = self.heads.get_mut(queue).ok_or_else(|| codec::corrupt("a queue's counts are missing"))?;
        Ok(&mut held.head)
    }

    /// The next task id: this microsecond, or one more than the last.
    pub(crate) fn next_id(&mut self) -> Result<TaskId> {
        let last = match self.last_id {
            Some(last) => last,
            None => self
                .txn
                .get(&self.keys.last_id())?
                .and_then(|id| Some(u64::from_be_bytes(*id.first_chunk()?)))
                .unwrap_or(0),
        };
        let id = last.saturating_add(1).max(self.now.as_micros());
        self.last_id = Some(id);
        Ok(TaskId::from_u64(id))
    }

    /// The least token that may be handed out.
    pub(crate) fn token_floor(&mut self) -> Result<FencingToken> {
        if let Some(floor) = self.floor {
            return Ok(floor);
        }
        let stored = self.txn.get(&keys::token_floor())?;
        let floor = FencingToken::from_u64(
            stored.and_then(|floor| Some(u64::from_be_bytes(*floor.first_chunk()?))).unwrap_or(0),
        );
        self.floor = Some(floor);
        Ok(floor)
    }

    /// Writes what was kept in hand.
    pub(crate) fn flush(self) {
        for (queue, held) in self.heads {
            if held.stored != Some(held.head) && !(held.stored.is_none() && held.head == Head::default()) {
                self.txn.put(queue.head(), held.head.encode());
            }
        }
        if let Some(id) = self.last_id {
            self.txn.put(self.keys.last_id(), id.to_be_bytes().to_vec());
        }
    }
}

/// A queue's stored counts; damaged ones start again from what the next verbs count, and `check` finds them.
pub(crate) fn read_head(view: &dyn View, queue: &QueueKeys) -> Result<Option<Head>> {
    Ok(view.get(&queue.head())?.map(|bytes| Head::decode(&bytes).unwrap_or_default()))
}
