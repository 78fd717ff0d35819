//! What happens to a record: pure functions over plain values, with no async, no I/O and no clock.
//!
//! Engines and stores find, hold and write records; only this module decides what becomes of one.

pub(crate) mod backoff;
pub(crate) mod json;
pub mod limits;
pub(crate) mod task;
pub(crate) mod transition;
