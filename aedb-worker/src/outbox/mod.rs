//! An outbox: events that are recorded with the change they tell of, and delivered at least once, in order for each key.
//!
//! [`event`] makes the effect that records one; it rides in the same commit as the state change, so the event exists if and
//! only if the change does. A [`Dispatcher`] hands events to a [`Publisher`]. Several dispatchers share a topic and take over from
//! one that died.
//!
//! - **Order.** Events of one key are published one after the other, in the order of their commits. Keys are independent.
//! - **At least once.** A crash between publishing and recording it publishes again; [`Event::id`] is the same, so that the receiver
//!   can tell. A dispatcher that lost its lease cannot record anything.
//! - **A poison event blocks its own key.** After its budget the key is parked with the reason: [`Outbox::parked`] lists it, and
//!   [`Outbox::retry`] or [`Outbox::skip`] let it go on.
//! - **Nothing is skipped.** Events are removed one by one as they are delivered; there is no position that a late commit could fall behind.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use aedb_queue::{Db, Effects};
//! use aedb_worker::outbox::{Dispatcher, Event, event};
//!
//! let db = Db::memory()?;
//! let placed = Effects::new().put("order:7", "placed").and(event("orders", "order:7", &"placed")?);
//! db.default_scope().kv().commit(placed).await?;
//!
//! let publish = |event: Event| async move {
//!     println!("{} {}: {}", event.id, event.key, event.payload);
//!     Ok(())
//! };
//! let delivered = Dispatcher::builder(&db).topic("orders").publisher(publish).build()?.drain().await?;
//! assert_eq!(delivered, 1);
//! # Ok::<(), aedb_queue::Error>(()) }).unwrap();
//! ```

mod builder;
mod dispatch;
mod event;
mod keys;
mod lane;
mod members;
mod publisher;
mod stuck;
mod topic;

pub use builder::{Dispatcher, DispatcherBuilder};
pub use event::{Event, EventId, event};
pub use publisher::Publisher;
pub use topic::{Outbox, Parked};
