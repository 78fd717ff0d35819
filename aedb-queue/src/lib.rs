//! A durable task queue and fenced leases in one file.
//!
//! A worker that has lost its lease cannot write: not the acknowledgement, not the checkpoint, not your data.

pub mod clock;
pub mod error;
pub mod model;
pub mod time;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Limit, Result};
pub use model::backoff::Backoff;
pub use time::Timestamp;
