//! Retry by hand: dead, cancelled or scheduled tasks become ready with a fresh budget.

use super::keys::QueueKeys;
use super::scope::ScopeTxn;
use crate::error::Result;
use crate::model::task::TaskId;
use crate::model::transition;

pub(crate) fn retry(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, ids: &[TaskId]) -> Result<Vec<bool>> {
    ids.iter().map(|id| one(scope, queue, *id)).collect()
}

fn one(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, id: TaskId) -> Result<bool> {
    let Some(mut stored) = scope.load(queue, id)? else { return Ok(false) };
    if let Some(key) = &stored.task.key
        && scope.key_holder(queue, &key.text)?.is_some_and(|entry| entry.id != id)
    {
        // The key's window had passed and another task has it now: two tasks of one key must not both live.
        return Ok(false);
    }
    let changed = transition::retry(&mut stored.task, scope.now);
    if changed {
        scope.save(queue, &stored)?;
    }
    Ok(changed)
}
