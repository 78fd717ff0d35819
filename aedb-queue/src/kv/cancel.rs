//! Cancel: unfinished tasks stop; the owner of a running one learns it from its next heartbeat or settle.

use super::keys::QueueKeys;
use super::scope::ScopeTxn;
use crate::error::Result;
use crate::model::task::TaskId;
use crate::model::transition;

pub(crate) fn cancel(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, ids: &[TaskId]) -> Result<Vec<bool>> {
    ids.iter().map(|id| one(scope, queue, *id)).collect()
}

fn one(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, id: TaskId) -> Result<bool> {
    let Some(mut stored) = scope.load(queue, id)? else { return Ok(false) };
    let changed = transition::cancel(&mut stored.task, scope.now);
    if changed {
        scope.save(queue, &stored)?;
    }
    Ok(changed)
}
