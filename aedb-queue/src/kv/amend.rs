//! Amend: tasks that have not finished get other terms; their index entries follow.

use super::keys::QueueKeys;
use super::scope::ScopeTxn;
use crate::error::Result;
use crate::model::task::TaskId;
use crate::model::transition::{self, Terms};

pub(crate) fn amend(
    scope: &mut ScopeTxn<'_, '_>,
    queue: &QueueKeys,
    ids: &[TaskId],
    terms: &Terms,
) -> Result<Vec<bool>> {
    ids.iter().map(|id| one(scope, queue, *id, terms)).collect()
}

fn one(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, id: TaskId, terms: &Terms) -> Result<bool> {
    let Some(mut stored) = scope.load(queue, id)? else { return Ok(false) };
    let changed = transition::amend(&mut stored.task, terms, scope.now);
    if changed {
        scope.save_unasked(queue, &stored)?;
    }
    Ok(changed)
}
