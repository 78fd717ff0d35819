//! Live workers: the leases whose names begin with `worker:`, and what they say.

use std::ops::ControlFlow;
use std::time::Duration;

use super::keys::ScopeKeys;
use super::leases::each;
use super::scope::ScopeTxn;
use crate::engine::View;
use crate::error::Result;
use crate::model::task::FencingToken;
use crate::store::LiveWorker;
use crate::time::Timestamp;

/// Up to how many announcements are looked at.
const LOOKS: usize = 10_000;
/// How long an announcement is remembered after its end.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// The workers whose announcements have not run out, in the order of their identities.
pub(crate) fn workers(view: &dyn View, scope: &ScopeKeys, now: Timestamp) -> Result<Vec<LiveWorker>> {
    let mut live = Vec::new();
    look(view, scope, now, &mut |announced| {
        live.extend(announced.worker());
        ControlFlow::Continue(())
    })?;
    Ok(live)
}

/// Whether workers were ever announced in the scope and none that lives knows the name in the queue.
pub(crate) fn is_unserved(view: &dyn View, scope: &ScopeKeys, now: Timestamp, queue: &str, name: &str) -> Result<bool> {
    let (mut announced, mut known) = (0, false);
    look(view, scope, now, &mut |found| {
        announced += 1;
        known = match &found {
            Announced::Live(worker) => worker.knows(queue, name),
            Announced::Ended(_) => false,
            Announced::Unreadable => true,
        };
        if known { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    // With more of them than were looked at, nothing is said rather than something wrong.
    Ok(announced > 0 && announced < LOOKS && !known)
}

/// The token below that of a lease which is new, and, for a worker's, room for it: announcements that ended long ago go.
///
/// Tokens of workers begin at the present microsecond, so that they grow even over a record that was forgotten.
pub(crate) fn welcome(scope: &mut ScopeTxn<'_, '_>, name: &str) -> Result<FencingToken> {
    if !name.starts_with(LiveWorker::PREFIX) {
        return Ok(FencingToken::default());
    }
    let (now, mut old) = (scope.now, Vec::new());
    look(scope.txn, &scope.keys, now, &mut |announced| {
        if let Announced::Ended(worker) = announced
            && worker.until.saturating_add(KEEP) <= now
        {
            old.push(worker.identity);
        }
        ControlFlow::Continue(())
    })?;
    for identity in old {
        scope.txn.delete(scope.keys.lease(&format!("{}{identity}", LiveWorker::PREFIX)));
    }
    Ok(FencingToken::from_u64(now.as_micros()))
}

enum Announced {
    Live(LiveWorker),
    Ended(LiveWorker),
    Unreadable,
}

impl Announced {
    fn worker(self) -> Option<LiveWorker> {
        if let Self::Live(worker) = self { Some(worker) } else { None }
    }
}

fn look(
    view: &dyn View,
    scope: &ScopeKeys,
    now: Timestamp,
    visit: &mut dyn FnMut(Announced) -> ControlFlow<()>,
) -> Result<()> {
    let mut looked = 0;
    each(view, scope, LiveWorker::PREFIX, &scope.lease(LiveWorker::PREFIX), &mut |name, record, _| {
        looked += 1;
        let identity = name.get(LiveWorker::PREFIX.len()..).unwrap_or_default();
        let step = visit(match record {
            Some(lease) if lease.owner.is_some() && lease.until > now => {
                Announced::Live(LiveWorker::read(identity, lease.until, lease.note.as_ref()))
            }
            Some(lease) => Announced::Ended(LiveWorker::read(identity, lease.until, None)),
            None => Announced::Unreadable,
        });
        if looked == LOOKS { ControlFlow::Break(()) } else { step }
    })
}
