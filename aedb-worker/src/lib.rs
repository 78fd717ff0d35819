//! An async runtime for the tasks of [`aedb_queue`].
//!
//! A [`Worker`] claims tasks whose handlers it has, runs each under a lease that it keeps alive, and settles what the handler
//! decided. Returning from the handler is the commit: it cannot forget to acknowledge, or do it twice.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use aedb_queue::{Db, NewTask};
//! use aedb_worker::{Outcome, TaskContext, TaskError, Worker};
//!
//! async fn greet(name: String, cx: TaskContext) -> Result<Outcome, TaskError> {
//!     cx.effects().put(format!("greeted:{name}"), "yes");
//!     Ok(Outcome::done(()))
//! }
//!
//! let db = Db::memory()?;
//! db.queue("mail")?.enqueue(NewTask::new("greet", "ada")?).await?;
//! Worker::builder(&db).queue("mail").handler("greet", greet).build()?.drain().await?;
//! assert!(db.default_scope().kv().get("greeted:ada").await?.is_some());
//! # Ok::<(), aedb_queue::Error>(()) }).unwrap();
//! ```

mod builder;
mod call;
mod context;
mod defaults;
mod error;
pub mod events;
mod extract;
mod graph;
pub mod guide;
mod handler;
mod input;
mod layer;
mod once;
pub mod outbox;
mod outcome;
mod private;
mod returned;
mod run;
mod state;
mod tasks;
pub mod testing;
mod version;
mod wait;
mod worker;

/// What generated code names. Not part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::private::*;
}

pub use async_trait::async_trait;
pub use builder::WorkerBuilder;
pub use call::{Call, Enqueue, EnqueueAll, FollowUp, Target};
pub use context::{EffectsOf, TaskContext};
pub use defaults::Defaults;
pub use error::{TaskError, TaskResult};
pub use extract::{FromContext, Meta, Needs, Progress, State};
pub use graph::{Edge, Graph};
pub use handler::{Decided, Handler, TaskInput};
pub use layer::{Dead, Layer, Next};
pub use once::{Begun, Step};
pub use outcome::Outcome;
pub use run::{Health, WorkerHandle, WorkerState};
pub use tasks::Tasks;
pub use wait::{EnqueueAndWait, WaitError};
pub use worker::Worker;

#[doc = include_str!("../docs/task.md")]
#[cfg(feature = "macros")]
pub use aedb_macros::task;

/// The README's examples, compiled. One of them is about a server.
#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../README.md")]
struct Readme;
