//! Tests for your own tasks, without a worker that runs, without waiting, and with everything that can go wrong.
//!
//! - [`context`] makes a [`TaskContext`](crate::TaskContext) by hand, for a handler that is called like any function.
//! - [`perform`] runs a [`Handler`](crate::Handler) once, with its input through JSON as in life.
//! - [`Kit`] is a database in memory on a clock that moves when told to: run what is due, lose leases, fail commits.
//! - [`crash_at_each_commit`] crashes at each commit in turn, and asks what must hold afterwards.
//! - `assert_lock` (feature `lock`) fails when the input of a task changed and tasks that wait could not be read.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use aedb_worker::testing::{self, Kit};
//! use aedb_worker::{Outcome, TaskContext, TaskError, Worker};
//!
//! async fn greet(name: String, cx: TaskContext) -> Result<Outcome, TaskError> {
//!     cx.effects().put(format!("greeted:{name}"), "yes");
//!     Ok(Outcome::done(()))
//! }
//!
//! // The function alone:
//! let cx = testing::context("greet", "ada")?.attempt(2).build();
//! greet(cx.payload()?, cx.clone()).await.unwrap();
//! assert_eq!(cx.effects().list().len(), 1);
//!
//! // The whole way, deterministic and at once:
//! let kit = Kit::new()?;
//! kit.queue("mail")?.enqueue(aedb_queue::NewTask::new("greet", "ada")?).await?;
//! kit.assert_enqueued("mail", "greet", |name: &String| name == "ada").await;
//! let worker = Worker::builder(kit.db()).queue("mail").handler("greet", greet).build()?;
//! assert_eq!(kit.drain(&worker).await?, 1);
//! assert!(kit.db().default_scope().kv().get("greeted:ada").await?.is_some());
//! # Ok::<(), aedb_queue::Error>(()) }).unwrap();
//! ```

mod context;
mod faults;
mod kit;
#[cfg(feature = "lock")]
pub(crate) mod lock;
mod store;

pub use context::{ContextBuilder, context, perform};
pub use faults::{Call, Fault, Faults, Verb};
pub use kit::{Kit, crash_at_each_commit};
#[cfg(feature = "lock")]
pub use lock::assert_lock;
