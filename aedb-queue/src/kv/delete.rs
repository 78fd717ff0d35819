//! Delete: a task that is not in flight goes, with everything that follows from it and its idempotency key.

use super::keys::QueueKeys;
use super::scope::ScopeTxn;
use crate::error::Result;
use crate::model::task::{TaskId, TaskState};

pub(crate) fn delete(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, ids: &[TaskId]) -> Result<Vec<bool>> {
    ids.iter().map(|id| one(scope, queue, *id)).collect()
}

fn one(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, id: TaskId) -> Result<bool> {
    match scope.load(queue, id)? {
        Some(stored) if !matches!(stored.task.state, TaskState::InFlight { .. }) => {
            scope.remove(queue, &stored, true)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}
