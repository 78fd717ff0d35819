//! Pause and resume: claims of the queue find nothing while it is paused; what runs goes on.

use super::keys::QueueKeys;
use super::scope::ScopeTxn;
use crate::error::Result;

pub(crate) fn pause(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, paused: bool) -> Result<()> {
    let now = scope.now;
    let head = scope.head(queue)?;
    head.paused = paused.then(|| head.paused.unwrap_or(now));
    if !paused {
        scope.txn.touch(queue.topic());
    }
    Ok(())
}
