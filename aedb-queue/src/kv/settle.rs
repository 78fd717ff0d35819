//! Settle: what workers decided, under their tokens. Each item stands alone: it checks all that can refuse it before it
//! writes anything.

use super::app_keys;
use super::keys::QueueKeys;
use super::record::Slot;
use super::scope::ScopeTxn;
use crate::error::{ErrorKind, Result};
use crate::model::limits;
use crate::model::transition::{self, LeaseLoss, Verdict};
use crate::store::{Decision, FencedCommit, Settlement};

/// Applies each item or answers why not; only a store that cannot read fails them all.
pub(crate) fn settle(
    scope: &mut ScopeTxn<'_, '_>,
    queue: &QueueKeys,
    items: Vec<Settlement>,
) -> Result<Vec<Result<FencedCommit>>> {
    items
        .into_iter()
        .map(|item| match one(scope, queue, item) {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::PermissionDenied) => Ok(Err(error)),
            Err(error) => Err(error),
            Ok(answer) => Ok(Ok(answer)),
        })
        .collect()
}

fn one(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, item: Settlement) -> Result<FencedCommit> {
    let Some(mut stored) = scope.load(queue, item.id)? else { return Ok(FencedCommit::LeaseLost(LeaseLoss::Gone)) };
    if let Err(loss) = transition::holds(&stored.task, item.token) {
        return Ok(FencedCommit::LeaseLost(loss));
    }
    let verdict = match item.decision {
        Decision::Complete(completion) => {
            app_keys::check(scope, &completion.effects)?;
            app_keys::write(scope, completion.effects)?;
            if let Some(keep) = completion.keep {
                stored.task.policy.keep_done = keep;
            }
            if let Some(result) = completion.result {
                scope.set_body(queue, item.id, &mut stored.task.result, Slot::Result, result);
            }
            Verdict::Complete
        }
        Decision::Fail { error, retry } => Verdict::Fail { error: limits::error_text(&error).into(), retry },
        Decision::Snooze(due) => Verdict::Snooze { until: due.instant(scope.now) },
        Decision::Release => Verdict::Release,
        Decision::Discard { reason } => Verdict::Discard { reason: limits::error_text(&reason).into() },
        Decision::Continue { payload, effects, due } => {
            app_keys::check(scope, &effects)?;
            app_keys::write(scope, effects)?;
            scope.set_body(queue, item.id, &mut stored.task.payload, Slot::Payload, payload);
            scope.clear_body(queue, item.id, &mut stored.task.progress, Slot::Progress);
            Verdict::Continue { until: due.instant(scope.now) }
        }
    };
    match transition::settle(&mut stored.task, item.token, &verdict, scope.now) {
        Ok(()) => scope.save(queue, &stored).map(|()| FencedCommit::Applied),
        Err(loss) => Ok(FencedCommit::LeaseLost(loss)),
    }
}
