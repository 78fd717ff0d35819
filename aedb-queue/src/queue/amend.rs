//! Changing a task that has not finished.

use super::{Queue, only};
use crate::error::Result;
use crate::model::task::TaskId;
use crate::store::Amendment;

impl Queue {
    /// Changes the priority, the budget of attempts or the backoff of a task that has not finished, wherever it is. False if
    /// it has finished or does not exist.
    ///
    /// A waiting task that has failed as often as it now may is dead in the same commit, and the next sweep tells. One in
    /// flight stays with its worker under the same token, and its next failure is its last, see
    /// [`ClaimedTask::would_die`](crate::ClaimedTask::would_die); if it is given back without one, the claim that meets it makes it dead.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the attempts are 0, [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied) without a grant: nothing was
    /// changed.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may still change it. Amending again to the same is harmless.
    pub async fn amend(&self, id: TaskId, amendment: Amendment) -> Result<bool> {
        amendment.check()?;
        only(self.store.amend(&self.at, &self.name, vec![id], amendment).await?)
    }
}
