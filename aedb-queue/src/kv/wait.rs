//! Wait for: a read that is run again when its task finishes or goes, and by its time at the latest.

use std::sync::Arc;

use super::get::full;
use super::grant::{self, Target};
use super::keys::QueueKeys;
use super::record;
use crate::engine::{Engine, Turn, Txn, View, submit_waiting};
use crate::error::Result;
use crate::model::task::TaskId;
use crate::store::{Access, Place, WaitOutcome};
use crate::time::Timestamp;

/// What can be said of the task now.
pub(crate) fn look(view: &dyn View, queue: &QueueKeys, name: &Arc<str>, id: TaskId) -> Result<WaitOutcome> {
    let Some(task) = record::read(view, queue, id)? else { return Ok(WaitOutcome::Gone) };
    if task.state.finished().is_none() {
        return Ok(WaitOutcome::Pending(task.state.kind()));
    }
    full(view, queue, name, task).map(|record| WaitOutcome::Finished(Box::new(record)))
}

/// Waits until the task has finished or gone, or until an instant. Its record's key is the topic: whatever makes it
/// finished or removes it touches that.
pub(crate) async fn submit(
    engine: &dyn Engine,
    at: Place,
    callers_required: bool,
    (queue, name): (QueueKeys, Arc<str>),
    id: TaskId,
    gives_up: Timestamp,
) -> Result<WaitOutcome> {
    let target = Target::queue(&name);
    submit_waiting(
        engine,
        at.caller.clone(),
        gives_up,
        |_| {},
        move |txn: &mut Txn<'_>| {
            grant::allow(txn, &at, callers_required, &target, Access::Read)?;
            Ok(match look(txn, &queue, &name, id)? {
                WaitOutcome::Pending(state) => {
                    Turn::Wait { topic: queue.primary(id), until: None, so_far: WaitOutcome::Pending(state) }
                }
                answer => Turn::Ready(answer),
            })
        },
    )
    .await
}
