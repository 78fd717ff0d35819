//! The writes of a batch that are not on disk yet, and the view through them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use super::{NativeWrite, View, Visit};
use crate::error::Result;
use crate::time::Timestamp;

/// A key's new value; `None` deletes it.
pub(crate) type Change = Option<Vec<u8>>;

/// The changes of a batch, with what is needed to take the running verb's back.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    changes: BTreeMap<Vec<u8>, Change>,
    /// What the running verb replaced; not kept for the first one, whose writes are all there is.
    undo: Vec<(Vec<u8>, Option<Change>)>,
    kept: bool,
    touched: BTreeSet<Vec<u8>>,
    natives: Vec<NativeWrite>,
    kept_natives: usize,
    size: Size,
    kept_size: Size,
}

/// How large a batch has become; a change of a change counts again, so it may be less.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Keys that change.
    pub(crate) changes: usize,
    /// Bytes of keys and values.
    pub(crate) bytes: usize,
    /// The longest key.
    pub(crate) key: usize,
    /// The longest value.
    pub(crate) value: usize,
}

impl Overlay {
    /// Keeps what the verb before wrote; from here on [`Overlay::undo`] goes back to this point.
    pub(super) fn keep(&mut self) {
        self.undo.clear();
        self.kept = !self.changes.is_empty() || !self.natives.is_empty();
        self.kept_natives = self.natives.len();
        self.kept_size = self.size;
    }

    /// Takes back everything since the last [`Overlay::keep`].
    pub(super) fn undo(&mut self) {
        self.size = self.kept_size;
        self.natives.truncate(self.kept_natives);
        if !self.kept {
            self.changes.clear();
        }
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(change) => self.changes.insert(key, change),
                None => self.changes.remove(&key),
            };
        }
    }

    /// The changes in key order.
    pub(crate) fn changes(&self) -> &BTreeMap<Vec<u8>, Change> {
        &self.changes
    }

    /// Writes in the engine's own terms, in the order in which they came.
    #[cfg_attr(not(feature = "aedb"), allow(dead_code, reason = "only AEDB has writes of its own"))]
    pub(crate) fn natives(&self) -> &[NativeWrite] {
        &self.natives
    }

    /// Whether verbs before the running one have changed anything.
    pub(super) fn has_kept(&self) -> bool {
        self.kept
    }

    /// How large it is.
    pub(super) fn size(&self) -> Size {
        Size { changes: self.changes.len() + self.natives.len(), ..self.size }
    }

    /// The topics in which something became ready since the last call.
    pub(super) fn take_touched(&mut self) -> BTreeSet<Vec<u8>> {
        std::mem::take(&mut self.touched)
    }

    fn set(&mut self, key: Vec<u8>, change: Change) {
        let value = change.as_ref().map_or(0, Vec::len);
        self.size.bytes += key.len() + value;
        self.size.key = self.size.key.max(key.len());
        self.size.value = self.size.value.max(value);
        if self.kept {
            let before = self.changes.insert(key.clone(), change);
            self.undo.push((key, before));
        } else {
            self.changes.insert(key, change);
        }
    }
}

/// What a verb sees and writes: the batch so far over what is committed.
pub(crate) struct Txn<'a> {
    base: &'a dyn View,
    overlay: &'a RefCell<Overlay>,
    now: Timestamp,
}

impl<'a> Txn<'a> {
    pub(super) fn new(base: &'a dyn View, overlay: &'a RefCell<Overlay>, now: Timestamp) -> Self {
        Self { base, overlay, now }
    }

    /// The instant of this batch.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Writes a value.
    pub(crate) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.overlay.borrow_mut().set(key, Some(value));
    }

    /// Deletes a key.
    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        self.overlay.borrow_mut().set(key, None);
    }

    /// Adds a write in the engine's own terms.
    pub(crate) fn native(&mut self, write: NativeWrite) {
        self.overlay.borrow_mut().natives.push(write);
    }

    /// Says that something became ready under a topic, so that verbs that wait there run again in this commit.
    pub(crate) fn touch(&mut self, topic: &[u8]) {
        let mut overlay = self.overlay.borrow_mut();
        if !overlay.touched.contains(topic) {
            overlay.touched.insert(topic.to_vec());
        }
    }
}

impl View for Txn<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.overlay.borrow().changes.get(key) {
            Some(change) => Ok(change.clone()),
            None => self.base.get(key),
        }
    }

    fn admits(&self, caller: &str, key: &[u8], writes: bool) -> Option<Result<()>> {
        self.base.admits(caller, key, writes)
    }

    fn is_aedb(&self) -> bool {
        self.base.is_aedb()
    }

    fn most_changes(&self) -> usize {
        self.base.most_changes()
    }

    fn scan(&self, from: &[u8], until: &[u8], visit: Visit<'_>) -> Result<()> {
        if from >= until {
            return Ok(());
        }
        let overlay = self.overlay.borrow();
        let mut changed = overlay.changes.range::<[u8], _>((Bound::Included(from), Bound::Excluded(until))).peekable();
        let mut stopped = false;
        self.base.scan(from, until, &mut |key, value| {
            while let Some((own, change)) = changed.next_if(|(own, _)| own.as_slice() <= key) {
                if let Some(value) = change
                    && visit(own, value).is_break()
                {
                    stopped = true;
                    return ControlFlow::Break(());
                }
                if own.as_slice() == key {
                    return ControlFlow::Continue(());
                }
            }
            let flow = visit(key, value);
            stopped = flow.is_break();
            flow
        })?;
        if stopped {
            return Ok(());
        }
        for (key, change) in changed {
            if let Some(value) = change
                && visit(key, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Base(BTreeMap<Vec<u8>, Vec<u8>>);

    impl View for Base {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
            Ok(self.0.get(key).cloned())
        }

        fn scan(&self, from: &[u8], until: &[u8], visit: Visit<'_>) -> Result<()> {
            for (key, value) in self.0.range::<[u8], _>((Bound::Included(from), Bound::Excluded(until))) {
                if visit(key, value).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }

    fn keys(txn: &Txn<'_>, stop_after: usize) -> Vec<String> {
        let mut seen = Vec::new();
        txn.scan(b"a", b"z", &mut |key, value| {
            seen.push(format!("{}{}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
            if seen.len() == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        seen
    }

    #[test]
    fn a_scan_sees_own_puts_and_deletes_in_order_and_stops_when_told() {
        let base = Base(["b", "d", "f"].map(|k| (k.into(), b"0".to_vec())).into());
        let overlay = RefCell::default();
        let mut txn = Txn::new(&base, &overlay, Timestamp::default());
        txn.put(b"a".to_vec(), b"1".to_vec());
        txn.put(b"d".to_vec(), b"1".to_vec());
        txn.delete(b"f".to_vec());
        txn.put(b"g".to_vec(), b"1".to_vec());
        assert_eq!(keys(&txn, 9), ["a1", "b0", "d1", "g1"]);
        for n in 1..=4 {
            assert_eq!(keys(&txn, n).len(), n);
        }
    }

    #[test]
    fn undo_goes_back_to_the_last_keep() {
        let base = Base(BTreeMap::new());
        let overlay = RefCell::default();
        let mut txn = Txn::new(&base, &overlay, Timestamp::default());
        txn.put(b"k".to_vec(), b"1".to_vec());
        overlay.borrow_mut().keep();
        txn.put(b"k".to_vec(), b"2".to_vec());
        txn.delete(b"k".to_vec());
        txn.put(b"l".to_vec(), b"3".to_vec());
        overlay.borrow_mut().undo();
        assert_eq!(keys(&txn, 9), ["k1"]);
    }

    #[test]
    fn undo_of_the_first_verb_leaves_nothing() {
        let base = Base([(b"b".to_vec(), b"0".to_vec())].into());
        let overlay = RefCell::default();
        let mut txn = Txn::new(&base, &overlay, Timestamp::default());
        txn.delete(b"b".to_vec());
        txn.put(b"c".to_vec(), b"1".to_vec());
        overlay.borrow_mut().undo();
        assert_eq!(keys(&txn, 9), ["b0"]);
    }
}
