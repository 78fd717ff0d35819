//! A durable task queue and fenced leases in one file.
//!
//! A worker that has lost its lease cannot write: not the acknowledgement, not the checkpoint, not your data.
//!
//! [`Db`] opens a file. A [`Queue`] holds tasks: [`enqueue`](Queue::enqueue), [`claim`](Queue::claim),
//! [`complete`](Queue::complete). A [`Lease`] is the right to act on any name. [`AppKeys`] are the application's own keys,
//! which change in the same commits. Work is delivered at least once; writes made through this crate are applied once.

mod app_keys;
mod clock;
mod db;
mod engine;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod hostile;
mod kv;
mod lease;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod scope;
pub mod store;
mod sync;
mod time;

pub use app_keys::AppKeys;
pub use clock::{Clock, ClockListener, ManualClock, SystemClock};
pub use db::{Db, DbBuilder};
#[cfg(feature = "aedb")]
pub use engine::aedb::{AedbLimits, open_aedb};
pub use engine::{NativeWrite, Progress, ProgressFn};
pub use error::{Error, ErrorKind, Limit, Result};
pub use lease::Lease;
pub use model::backoff::Backoff;
pub use model::json::Json;
pub use model::limits;
pub use model::task::{Counters, DeadReason, Failure, FencingToken, StateKind, TaskId, TaskState};
pub use model::transition::{LeaseLoss, Retry};
#[cfg(feature = "postgres")]
pub use postgres::PgStore;
pub use queue::Queue;
pub use scope::Scope;
/// The client library whose connections and transactions [`PgStore`] works with.
#[cfg(feature = "postgres")]
pub use sqlx;
pub use store::{
    Access, Amendment, CheckReport, ClaimRequest, ClaimedTask, Completion, Cursor, Decision, Due, Effect, Effects,
    EnqueueOutcome, Expect, Explanation, FencedCommit, Filter, GrantTarget, Heartbeat, HeartbeatOutcome, HeldLease,
    KeyRange, LeaseLength, LeaseOutcome, LeasePage, LeaseRecord, LiveWorker, NewTask, Page, QueueStats, RenewOutcome,
    RetentionLimits, Settlement, Store, SweepReport, TaskRecord, WaitOutcome,
};
pub use time::Timestamp;
