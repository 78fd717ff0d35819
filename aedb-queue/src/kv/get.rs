//! Get: one record with its long values.

use std::sync::Arc;

use super::keys::QueueKeys;
use super::record::{self, Slot, body};
use crate::engine::View;
use crate::error::Result;
use crate::model::json::Json;
use crate::model::task::{Task, TaskId};
use crate::store::TaskRecord;

pub(crate) fn get(view: &dyn View, queue: &QueueKeys, name: &Arc<str>, id: TaskId) -> Result<Option<TaskRecord>> {
    record::read(view, queue, id)?.map(|task| full(view, queue, name, task)).transpose()
}

pub(crate) fn full(view: &dyn View, queue: &QueueKeys, name: &Arc<str>, task: Task) -> Result<TaskRecord> {
    let id = task.id;
    Ok(TaskRecord {
        id,
        queue: Arc::clone(name),
        payload: body(view, queue, id, &task.payload, Slot::Payload)?.unwrap_or_else(Json::null),
        progress: body(view, queue, id, &task.progress, Slot::Progress)?,
        result: body(view, queue, id, &task.result, Slot::Result)?,
        name: task.name,
        state: task.state,
        priority: task.priority,
        failures: task.failures,
        counters: task.counters,
        max_attempts: task.policy.max_attempts,
        token: task.token,
        enqueued: task.enqueued,
        updated: task.updated,
        idempotency_key: task.key.map(|key| key.text),
        metadata: task.metadata,
    })
}
