//! Heartbeat: extend leases and record progress; each item stands alone.

use super::keys::QueueKeys;
use super::record::Slot;
use super::scope::ScopeTxn;
use crate::error::Result;
use crate::model::transition::{self, LeaseLoss};
use crate::store::{Heartbeat, HeartbeatOutcome};

pub(crate) fn heartbeat(
    scope: &mut ScopeTxn<'_, '_>,
    queue: &QueueKeys,
    items: Vec<Heartbeat>,
) -> Result<Vec<HeartbeatOutcome>> {
    items.into_iter().map(|item| one(scope, queue, item)).collect()
}

fn one(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, item: Heartbeat) -> Result<HeartbeatOutcome> {
    let Some(mut stored) = scope.load(queue, item.id)? else { return Ok(HeartbeatOutcome::LeaseLost(LeaseLoss::Gone)) };
    match transition::heartbeat(&mut stored.task, item.token, item.lease.length(), scope.now) {
        Err(loss) => Ok(HeartbeatOutcome::LeaseLost(loss)),
        Ok(deadline) => {
            if let Some(progress) = item.progress {
                scope.set_body(queue, item.id, &mut stored.task.progress, Slot::Progress, progress);
            }
            scope.save(queue, &stored)?;
            Ok(HeartbeatOutcome::Extended(deadline))
        }
    }
}
