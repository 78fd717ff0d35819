//! Leases: acquire, renew, release, status and guarded commit, with the table of contract rule 17.
//!
//! | | free, released or run out | own | somebody else's |
//! |---|---|---|---|
//! | acquire | acquired, token + 1 | acquired, token + 1 | held |
//! | renew, token right | lost | extended, never shortened | - |
//! | release, token right | nothing | owner and note cleared, token kept | - |
//! | guarded commit, token right | lost | applied | - |
//!
//! With a wrong token every call but acquire is lost, or does nothing. A damaged record counts as free, under a token above all
//! that were handed out.

use std::sync::Arc;

use super::app_keys;
use super::codec::{Reader, Writer};
use super::keys::ScopeKeys;
use super::scope::ScopeTxn;
use super::workers;
use crate::engine::View;
use crate::error::{ErrorKind, Result};
use crate::model::json::Json;
use crate::model::task::FencingToken;
use crate::model::transition::LeaseLoss;
use crate::store::{Effects, FencedCommit, HeldLease, LeaseLength, LeaseOutcome, LeaseRecord, RenewOutcome};

pub(crate) fn acquire(
    scope: &mut ScopeTxn<'_, '_>,
    name: Arc<str>,
    owner: Arc<str>,
    length: LeaseLength,
    note: Option<Json>,
) -> Result<LeaseOutcome> {
    let before = readable(scope, &name)?;
    if let Some(LeaseRecord { owner: Some(holder), until, .. }) = &before
        && *until > scope.now
        && *holder != owner
    {
        return Ok(LeaseOutcome::Held { owner: Arc::clone(holder), until: *until });
    }
    let floor = scope.token_floor()?;
    let last = match before {
        Some(before) => before.token,
        // Damaged: its holder can write nothing under it, so it is free. Tokens that grew by ones are far below this one.
        None if scope.txn.get(&scope.keys.lease(&name))?.is_some() => FencingToken::from_u64(scope.now.as_micros()),
        None => workers::welcome(scope, &name)?,
    };
    let token = last.next(floor);
    let until = scope.now.saturating_add(length.length());
    let record = LeaseRecord {
        name: Arc::clone(&name),
        owner: Some(Arc::clone(&owner)),
        token,
        until,
        acquired: scope.now,
        note,
    };
    put(scope, &record);
    Ok(LeaseOutcome::Acquired(HeldLease { name, owner, token, until }))
}

pub(crate) fn renew(scope: &mut ScopeTxn<'_, '_>, held: &HeldLease, length: LeaseLength) -> Result<RenewOutcome> {
    let Some(mut record) = current(scope, held)? else { return Ok(RenewOutcome::Lost) };
    record.until = scope.now.saturating_add(length.length()).max(record.until);
    put(scope, &record);
    Ok(RenewOutcome::Renewed(record.until))
}

pub(crate) fn release(scope: &mut ScopeTxn<'_, '_>, held: &HeldLease) -> Result<()> {
    let record = readable(scope, &held.name)?;
    if let Some(mut record) = record.filter(|record| record.token == held.token && record.owner.is_some()) {
        record.owner = None;
        record.note = None;
        record.until = scope.now;
        put(scope, &record);
    }
    Ok(())
}

pub(crate) fn guarded_commit(scope: &mut ScopeTxn<'_, '_>, held: &HeldLease, effects: Effects) -> Result<FencedCommit> {
    if current(scope, held)?.is_none() {
        return Ok(FencedCommit::LeaseLost(LeaseLoss::TakenOver));
    }
    app_keys::apply(scope, effects)?;
    Ok(FencedCommit::Applied)
}

pub(crate) fn status(view: &dyn View, scope: &ScopeKeys, name: &str) -> Result<Option<LeaseRecord>> {
    view.get(&scope.lease(name))?.map(|bytes| decode(name, &bytes)).transpose()
}

/// The record, unless it is damaged.
fn readable(scope: &ScopeTxn<'_, '_>, name: &str) -> Result<Option<LeaseRecord>> {
    match status(scope.txn, &scope.keys, name) {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        record => record,
    }
}

/// A record from its bytes. The note is a tail that older records lack; those may have a text about the holder instead.
pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<LeaseRecord> {
    let mut r = Reader::new(bytes)?;
    let (token, until, acquired) = (FencingToken::from_u64(r.number()?), r.instant()?, r.instant()?);
    let owner = Some(r.text()?).filter(|owner| !owner.is_empty()).map(Arc::from);
    let text = r.text()?;
    let note = match r.is_at_end() {
        false => Some(Json::trusted(r.text()?)),
        true if text.is_empty() => None,
        true => Some(Json::of(text)?),
    };
    Ok(LeaseRecord { name: name.into(), owner, token, until, acquired, note })
}

/// The record, if this holder's token is current and unexpired.
fn current(scope: &ScopeTxn<'_, '_>, held: &HeldLease) -> Result<Option<LeaseRecord>> {
    let record = readable(scope, &held.name)?;
    Ok(record.filter(|r| r.token == held.token && r.owner.as_ref() == Some(&held.owner) && r.until > scope.now))
}

fn put(scope: &mut ScopeTxn<'_, '_>, record: &LeaseRecord) {
    let mut w = Writer::new(64);
    w.number(record.token.as_u64());
    w.instant(record.until);
    w.instant(record.acquired);
    w.text(record.owner.as_deref().unwrap_or_default());
    w.text("");
    if let Some(note) = &record.note {
        w.text(note.as_str());
    }
    scope.txn.put(scope.keys.lease(&record.name), w.finish());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before_notes(text: &str) -> Vec<u8> {
        let mut w = Writer::new(64);
        [7, 30, 20].into_iter().for_each(|number| w.number(number));
        w.text("w");
        w.text(text);
        w.finish()
    }

    #[test]
    fn records_from_before_notes_stay_readable_and_their_text_becomes_the_note() {
        for (text, note) in [("", None), ("host 7", Some("\"host 7\""))] {
            let record = decode("a", &before_notes(text)).unwrap();
            assert_eq!((record.token.as_u64(), record.until.as_micros(), record.acquired.as_micros()), (7, 30, 20));
            assert_eq!((record.owner.as_deref(), record.note.as_ref().map(Json::as_str)), (Some("w"), note));
        }
    }
}
