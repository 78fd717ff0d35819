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
//! async fn greet(cx: TaskContext) -> Result<Outcome, TaskError> {
//!     let name: String = cx.payload()?;
//!     Ok(Outcome::done().put(format!("greeted:{name}"), "yes"))
//! }
//!
//! let db = Db::memory()?;
//! db.queue("mail")?.enqueue(NewTask::new("greet", "ada")?).await?;
//! Worker::builder(&db).queue("mail").handler("greet", greet).build()?.drain().await?;
//! assert!(db.default_scope().kv().get("greeted:ada").await?.is_some());
//! # Ok::<(), aedb_queue::Error>(()) }).unwrap();
//! ```

mod context;
mod error;
mod handler;
mod outcome;
mod run;
mod worker;

pub use context::TaskContext;
pub use error::TaskError;
pub use outcome::Outcome;
pub use worker::{Worker, WorkerBuilder};
