//! The application's own keys, and effects that ride in a commit.

use std::ops::ControlFlow;

use super::enqueue;
use super::grant::{self, Target};
use super::keys::{self, ScopeKeys};
use super::scope::ScopeTxn;
use crate::engine::View;
use crate::error::{Error, ErrorKind, Result};
use crate::model::limits;
use crate::store::{Access, Effect, Effects, Expect, KeyRange, not_aedb};

/// Checks everything that can refuse the effects; writes nothing.
pub(crate) fn check(scope: &ScopeTxn<'_, '_>, effects: &Effects) -> Result<()> {
    for effect in &effects.0 {
        match effect {
            Effect::Put { key, .. } | Effect::Delete { key } => allow(scope, &Target::Key(key.clone()), Access::Write)?,
            Effect::Append { prefix, .. } => allow(scope, &Target::Key(prefix.clone()), Access::Write)?,
            Effect::Enqueue { queue, .. } => allow(scope, &Target::queue(queue), Access::Write)?,
            Effect::Native(_) if scope.txn.is_aedb() => {}
            Effect::Native(_) => return Err(not_aedb()),
            Effect::Assert { key, expect } => {
                allow(scope, &Target::Key(key.clone()), Access::Read)?;
                let value = scope.txn.get(&scope.keys.application(key))?;
                let holds = match expect {
                    Expect::Absent => value.is_none(),
                    Expect::Present => value.is_some(),
                    Expect::Value(expected) => value.as_ref() == Some(expected),
                };
                if !holds {
                    let key = key.escape_ascii();
                    return Err(Error::new(
                        ErrorKind::Conflict,
                        format!("the key {key} is not as asserted; nothing was applied"),
                    ));
                }
            }
        }
    }
    Ok(())
}

fn allow(scope: &ScopeTxn<'_, '_>, target: &Target, access: Access) -> Result<()> {
    grant::allow(scope.txn, &scope.at, scope.callers_required, target, access)
}

/// Checks the effects, then applies them all.
pub(crate) fn apply(scope: &mut ScopeTxn<'_, '_>, effects: Effects) -> Result<()> {
    check(scope, &effects)?;
    write(scope, effects)
}

/// Applies effects that were checked.
pub(crate) fn write(scope: &mut ScopeTxn<'_, '_>, effects: Effects) -> Result<()> {
    for effect in effects.0 {
        match effect {
            Effect::Put { key, value } => scope.txn.put(scope.keys.application(&key), value),
            Effect::Delete { key } => scope.txn.delete(scope.keys.application(&key)),
            Effect::Append { prefix, value } => {
                let number = scope.next_id()?.as_u64();
                let key = [prefix.as_slice(), &number.to_be_bytes()].concat();
                scope.txn.put(scope.keys.application(&key), value);
            }
            Effect::Assert { .. } => {}
            Effect::Native(write) => scope.txn.native(write),
            Effect::Enqueue { queue, task } => {
                let queue = scope.keys.queue(&queue);
                enqueue::one(scope, &queue, *task)?;
            }
        }
    }
    Ok(())
}

/// The keys of a range in order, without the reserved ones.
pub(crate) fn scan(view: &dyn View, scope: &ScopeKeys, range: &KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let prefix = scope.application(&range.prefix);
    let mut from = prefix.clone();
    if let Some(after) = &range.after {
        let mut next = scope.application(after);
        next.push(0);
        from = from.max(next);
    }
    let limit = range.limit.unwrap_or(limits::PAGE).min(limits::PAGE);
    let mut found = Vec::new();
    if limit == 0 {
        return Ok(found);
    }
    let reserved = scope.application(limits::RESERVED_PREFIX);
    let behind = keys::after(&reserved);
    // Around the reserved keys, not over them: there may be millions.
    for (from, until) in [(from.clone(), keys::after(&prefix).min(reserved)), (from.max(behind), keys::after(&prefix))]
    {
        view.scan(&from, &until, &mut |key, value| {
            if found.len() == limit {
                return ControlFlow::Break(());
            }
            found.push((key.get(scope.len()..).unwrap_or_default().to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
    }
    Ok(found)
}
