//! The public seam: every verb, with what goes in and what comes out.
//!
//! A store keeps the contract; the handles ([`Db`](crate::Db), [`Queue`](crate::Queue), [`Lease`](crate::Lease)) only pass
//! calls on to it. One method a verb, batch first.

mod amend;
mod app_keys;
mod claim;
mod enqueue;
mod grant;
mod heartbeat;
mod inspect;
mod lease;
mod settle;
mod upkeep;
mod wait;
mod workers;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use amend::Amendment;
pub(crate) use app_keys::not_aedb;
pub use app_keys::{Effect, Effects, Expect, KeyRange};
pub use claim::{ClaimRequest, ClaimedTask, Lease as LeaseLength};
pub(crate) use enqueue::UNIQUE_WINDOW;
pub use enqueue::{Due, EnqueueOutcome, NewTask};
pub use grant::{Access, GrantTarget};
pub use heartbeat::{Heartbeat, HeartbeatOutcome};
pub use inspect::{Cursor, Explanation, Filter, Page, QueueStats, TaskRecord};
pub use lease::{HeldLease, LeaseOutcome, LeasePage, LeaseRecord, RenewOutcome};
pub use settle::{Completion, Decision, FencedCommit, Settlement};
pub use upkeep::{CheckReport, Limits as RetentionLimits, SweepReport};
pub use wait::WaitOutcome;
pub use workers::LiveWorker;

use crate::clock::Clock;
use crate::engine::ProgressFn;
use crate::error::Result;
use crate::model::json::Json;
use crate::model::task::TaskId;

/// Where a call acts and on whose behalf: a scope, and a caller if one was named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The project.
    pub project: Arc<str>,
    /// The scope within the project.
    pub scope: Arc<str>,
    /// Who calls; `None` is anonymous.
    pub caller: Option<Arc<str>>,
}

/// A durable queue and lease store.
///
/// The handles check names and sizes before they call; a store may rely on that. Every method that changes something is
/// durable when it answers `Ok`.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// The clock whose instants the store's answers speak of.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Enqueues tasks and applies effects in one commit.
    async fn enqueue(
        &self,
        at: &Place,
        queue: &str,
        tasks: Vec<NewTask>,
        effects: Effects,
    ) -> Result<Vec<EnqueueOutcome>>;
    /// Claims due tasks.
    async fn claim(&self, at: &Place, queue: &str, request: ClaimRequest) -> Result<Vec<ClaimedTask>>;
    /// Applies what workers decided; each item stands alone.
    async fn settle(&self, at: &Place, queue: &str, items: Vec<Settlement>) -> Result<Vec<Result<FencedCommit>>>;
    /// Extends leases and records progress; each item stands alone.
    async fn heartbeat(&self, at: &Place, queue: &str, items: Vec<Heartbeat>) -> Result<Vec<HeartbeatOutcome>>;
    /// Cancels unfinished tasks. Answers which of them were cancelled by this call.
    async fn cancel(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>>;
    /// Changes the terms of unfinished tasks. Answers which were.
    async fn amend(&self, at: &Place, queue: &str, ids: Vec<TaskId>, amendment: Amendment) -> Result<Vec<bool>>;
    /// Makes dead, cancelled or scheduled tasks ready with a fresh budget. Answers which were.
    async fn retry(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>>;
    /// Removes tasks that are not in flight, with their idempotency keys. Answers which were.
    async fn delete(&self, at: &Place, queue: &str, ids: Vec<TaskId>) -> Result<Vec<bool>>;
    /// Stops or lets go on the claims of a queue.
    async fn pause(&self, at: &Place, queue: &str, paused: bool) -> Result<()>;

    /// One task.
    async fn get(&self, at: &Place, queue: &str, id: TaskId) -> Result<Option<TaskRecord>>;
    /// Waits until a task has finished or gone, at most for `timeout`.
    async fn wait_for(&self, at: &Place, queue: &str, id: TaskId, timeout: Duration) -> Result<WaitOutcome>;
    /// A page of tasks.
    async fn list(&self, at: &Place, queue: &str, filter: Filter) -> Result<Page>;
    /// A queue's counts and oldest ages.
    async fn stats(&self, at: &Place, queue: &str) -> Result<QueueStats>;
    /// The names of a scope's queues.
    async fn queues(&self, at: &Place) -> Result<Vec<String>>;
    /// Why a task is not running.
    async fn explain(&self, at: &Place, queue: &str, id: TaskId) -> Result<Explanation>;

    /// Acquires a lease.
    async fn acquire(
        &self,
        at: &Place,
        name: &str,
        owner: &str,
        length: LeaseLength,
        note: Option<Json>,
    ) -> Result<LeaseOutcome>;
    /// Extends a held lease.
    async fn renew(&self, at: &Place, held: &HeldLease, length: LeaseLength) -> Result<RenewOutcome>;
    /// Gives a lease back; its token stays.
    async fn release(&self, at: &Place, held: &HeldLease) -> Result<()>;
    /// Applies effects only if the lease is current and unexpired.
    async fn guarded_commit(&self, at: &Place, held: &HeldLease, effects: Effects) -> Result<FencedCommit>;
    /// A page of the records of leases whose names begin with `prefix`.
    async fn leases(&self, at: &Place, prefix: &str, after: Option<Cursor>, limit: usize) -> Result<LeasePage>;
    /// The workers whose announcements have not run out.
    async fn workers(&self, at: &Place) -> Result<Vec<LiveWorker>>;
    /// A lease's record.
    async fn lease_status(&self, at: &Place, name: &str) -> Result<Option<LeaseRecord>>;

    /// An application key's value.
    async fn key_get(&self, at: &Place, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Application keys in order.
    async fn key_scan(&self, at: &Place, range: KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;
    /// Applies effects.
    async fn commit(&self, at: &Place, effects: Effects) -> Result<()>;

    /// Sets or, with `None`, takes back what a caller may do with a target.
    async fn grant(&self, caller: &str, target: GrantTarget, access: Option<Access>) -> Result<()>;

    /// One bounded step of upkeep over a queue: promote, reclaim, expire keys, prune.
    async fn sweep(&self, at: &Place, queue: &str, limits: RetentionLimits) -> Result<SweepReport>;
    /// Compares every index entry, idempotency key and count of a queue with its records; with `repair`, puts them right.
    async fn check(&self, at: &Place, queue: &str, repair: bool) -> Result<CheckReport>;
    /// Copies the live database to a new file, as of one instant.
    fn backup(&self, to: &Path, progress: ProgressFn<'_>) -> Result<()>;
    /// Gives unused space of the file back.
    fn compact(&self, progress: ProgressFn<'_>) -> Result<bool>;
}
