//! Leases by prefix: pages of lease records in the order of their names.

use std::ops::ControlFlow;

use super::keys::{self, ScopeKeys};
use super::lease::decode;
use crate::engine::View;
use crate::error::{Error, Result};
use crate::model::limits;
use crate::store::{Cursor, LeasePage, LeaseRecord};

/// Bytes of records after which a page ends: notes may be long.
const PAGE_BYTES: usize = 4 << 20;

/// One page. The cursor is the name of the last lease that was looked at.
pub(crate) fn leases(
    view: &dyn View,
    scope: &ScopeKeys,
    prefix: &str,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<LeasePage> {
    let first = match after {
        None => scope.lease(prefix),
        Some(Cursor(last)) => match std::str::from_utf8(last) {
            Ok(last) if last.starts_with(prefix) && last.len() <= limits::NAME_BYTES => {
                [scope.lease(last).as_slice(), &[0]].concat()
            }
            _ => return Err(Error::invalid("not a cursor of this list")),
        },
    };
    let (mut page, mut looked, mut bytes) = (LeasePage::default(), 0, 0);
    let limit = limit.min(limits::PAGE);
    if limit == 0 {
        return Ok(page);
    }
    each(view, scope, prefix, &first, &mut |name, record, size| {
        page.leases.extend(record);
        (looked, bytes) = (looked + 1, bytes + size);
        if looked < limit && bytes < PAGE_BYTES {
            return ControlFlow::Continue(());
        }
        page.next = Some(Cursor(name.as_bytes().to_vec()));
        ControlFlow::Break(())
    })?;
    Ok(page)
}

/// What is called with each lease: its name, its record unless that is damaged, and the record's bytes.
type Visit<'a> = &'a mut dyn FnMut(&str, Option<LeaseRecord>, usize) -> ControlFlow<()>;

/// Visits the leases of a prefix from a key on.
pub(crate) fn each(view: &dyn View, scope: &ScopeKeys, prefix: &str, first: &[u8], visit: Visit<'_>) -> Result<()> {
    let name_at = scope.lease("").len();
    view.scan(first, &keys::after(&scope.lease(prefix)), &mut |key, value| {
        let name = String::from_utf8_lossy(key.get(name_at..).unwrap_or_default());
        visit(&name, decode(&name, value).ok(), value.len())
    })
}
