//! A batch's changes into the table, in key order.
//!
//! New keys and deleted keys come in runs (the ids of a batch follow one another), and a cursor takes a run at about a third
//! of the price of single calls. So a change that was new, or was a delete, opens a cursor for those behind it.

use std::collections::btree_map;
use std::iter::Peekable;
use std::ops::Bound;

use redb::{CursorError, Error, Table};

use super::overlay::Change;

type Bytes = &'static [u8];
type Changes<'a> = Peekable<btree_map::Iter<'a, Vec<u8>, Change>>;

pub(super) fn apply(
    table: &mut Table<'_, Bytes, Bytes>,
    changes: btree_map::Iter<'_, Vec<u8>, Change>,
) -> Result<(), Error> {
    let mut changes = changes.peekable();
    while let Some((key, change)) = changes.next() {
        match change {
            Some(value) => {
                let is_new = table.insert(key.as_slice(), value.as_slice())?.is_none();
                if is_new && changes.peek().is_some_and(|(_, next)| next.is_some()) {
                    insert_run(table, key, &mut changes)?;
                }
            }
            None => {
                let was_there = table.remove(key.as_slice())?.is_some();
                if was_there && changes.peek().is_some_and(|(_, next)| next.is_none()) {
                    remove_run(table, key, &mut changes)?;
                }
            }
        }
    }
    Ok(())
}

/// Inserts while the next new key belongs right behind the last one.
fn insert_run(table: &mut Table<'_, Bytes, Bytes>, after: &[u8], changes: &mut Changes<'_>) -> Result<(), Error> {
    let mut cursor = table.upper_bound_mut(Bound::Included(after))?;
    while let Some((key, Some(value))) = changes.peek() {
        match cursor.insert_before(key.as_slice(), value.as_slice()) {
            Ok(()) => drop(changes.next()),
            Err(CursorError::UnorderedKey) => break,
            Err(CursorError::Storage(error)) => return Err(error.into()),
            Err(error) => return Err(Error::Corrupted(error.to_string())),
        }
    }
    Ok(cursor.close()?)
}

/// Removes while the next deleted key is the next one in the table.
fn remove_run(table: &mut Table<'_, Bytes, Bytes>, after: &[u8], changes: &mut Changes<'_>) -> Result<(), Error> {
    let mut cursor = table.upper_bound_mut(Bound::Included(after))?;
    while let Some((key, None)) = changes.peek() {
        if cursor.peek_next()?.is_none_or(|(next, _)| next.value() != key.as_slice()) {
            break;
        }
        cursor.remove_next()?;
        changes.next();
    }
    Ok(cursor.close()?)
}
