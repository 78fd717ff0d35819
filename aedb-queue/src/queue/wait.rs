//! Waiting for the end of a task.

use std::time::Duration;

use super::Queue;
use crate::error::Result;
use crate::model::task::TaskId;
use crate::store::WaitOutcome;

impl Queue {
    /// Waits up to this long until a task is done, dead or cancelled, and answers with its record.
    ///
    /// In the process that finishes the task it is answered by the very commit that does; an end that another process wrote is
    /// seen within 25 ms while up to 512 calls wait, and in turns of that many beyond. A task that is retried by hand while
    /// somebody waits may be seen either way. A database opened [inline](crate::DbBuilder::inline) does not wait: it answers
    /// with what is so now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the record is damaged, [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied) without a grant, and if the store
    /// cannot serve or is closed. It never waits longer than it was told.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use std::time::Duration;
    /// use aedb_queue::{Db, NewTask, StateKind, TaskId, WaitOutcome};
    ///
    /// let queue = Db::memory()?.queue("mail")?;
    /// let id = queue.enqueue(NewTask::new("mail.welcome", "ada@example.org")?).await?.id;
    /// assert_eq!(queue.wait_for(id, Duration::from_millis(1)).await?, WaitOutcome::Pending(StateKind::Ready));
    /// queue.cancel(id).await?;
    /// assert!(queue.wait_for(id, Duration::from_secs(60)).await?.finished().is_some());
    /// assert_eq!(queue.wait_for(TaskId::from_u64(1), Duration::from_secs(60)).await?, WaitOutcome::Gone);
    /// # Ok::<(), aedb_queue::Error>(()) }).unwrap();
    /// ```
    pub async fn wait_for(&self, id: TaskId, timeout: Duration) -> Result<WaitOutcome> {
        self.store.wait_for(&self.at, &self.name, id, timeout).await
    }
}
