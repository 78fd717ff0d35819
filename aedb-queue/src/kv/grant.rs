//! Callers: who may do what (contract rule 19). Checked before a verb plans anything, in the verb's own transaction.

use std::ops::ControlFlow;

use super::keys::{self, ScopeKeys};
use crate::engine::{Txn, View};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Access, GrantTarget, Place};

/// What a call is about to touch.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The scope as a whole: leases, lists of queues.
    Scope,
    /// One queue.
    Queue(String),
    /// One application key, or the keys that begin with it.
    Key(Vec<u8>),
    /// Only effects, each of which is checked by itself.
    Effects,
}

impl Target {
    pub(crate) fn queue(name: &str) -> Self {
        Self::Queue(name.to_owned())
    }
}

/// Refuses a caller without the grant, and an anonymous call where callers are required.
pub(crate) fn allow(
    view: &dyn View,
    at: &Place,
    callers_required: bool,
    target: &Target,
    access: Access,
) -> Result<()> {
    let Some(caller) = &at.caller else {
        return if callers_required {
            Err(denied("this database requires a caller: use scope.as_caller(..)".to_owned()))
        } else {
            Ok(())
        };
    };
    let scope = ScopeKeys::new(&at.project, &at.scope);
    let touched = match target {
        Target::Effects => scope.application(b""),
        Target::Queue(queue) => scope.queue(queue).head(),
        Target::Scope => scope.lease(""),
        Target::Key(key) => scope.application(key),
    };
    if let Some(answer) = view.admits(caller, &touched, access == Access::Write) {
        return if matches!(target, Target::Effects) { Ok(()) } else { answer };
    }
    let own = scope.application(b"");
    let mut fits = vec![project(&at.project), [b"s", own.as_slice()].concat()];
    match target {
        Target::Effects => return Ok(()),
        Target::Queue(queue) => fits.push([b"q", own.as_slice(), queue.as_bytes()].concat()),
        Target::Scope | Target::Key(_) => {}
    }
    for grant in fits {
        if has(view.get(&keys::grant(caller, &grant))?.as_deref(), access) {
            return Ok(());
        }
    }
    if let Target::Key(key) = target
        && key_granted(view, caller, &own, key, access)?
    {
        return Ok(());
    }
    Err(denied(format!("{caller} has no grant to {} here", if access == Access::Read { "read" } else { "write" })))
}

/// Whether one of the caller's key grants is a prefix of the key.
fn key_granted(view: &dyn View, caller: &str, scope: &[u8], key: &[u8], access: Access) -> Result<bool> {
    let from = keys::grant(caller, &[b"k", scope].concat());
    let mut granted = false;
    view.scan(&from, &keys::after(&from), &mut |grant, value| {
        granted = key.starts_with(grant.get(from.len()..).unwrap_or_default()) && has(Some(value), access);
        if granted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(granted)
}

/// Sets or takes back a grant.
pub(crate) fn grant(txn: &mut Txn<'_>, caller: &str, target: &GrantTarget, access: Option<Access>) {
    let scoped =
        |tag: &[u8], p: &str, s: &str, rest: &[u8]| [tag, &ScopeKeys::new(p, s).application(b""), rest].concat();
    let target = match target {
        GrantTarget::Project(name) => project(name),
        GrantTarget::Scope { project, scope } => scoped(b"s", project, scope, b""),
        GrantTarget::Queue { project, scope, queue } => scoped(b"q", project, scope, queue.as_bytes()),
        GrantTarget::Keys { project, scope, prefix } => scoped(b"k", project, scope, prefix),
    };
    let key = keys::grant(caller, &target);
    match access {
        Some(Access::Read) => txn.put(key, b"r".to_vec()),
        Some(Access::Write) => txn.put(key, b"w".to_vec()),
        None => txn.delete(key),
    }
}

fn project(name: &str) -> Vec<u8> {
    [b"p", name.as_bytes()].concat()
}

fn has(stored: Option<&[u8]>, access: Access) -> bool {
    match stored {
        Some(b"w") => true,
        Some(b"r") => access == Access::Read,
        _ => false,
    }
}

fn denied(message: String) -> Error {
    Error::new(ErrorKind::PermissionDenied, message)
}
