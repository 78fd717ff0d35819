//! What happens to a record: pure functions over plain values, with no async, no I/O and no clock.
//!
//! Engines and stores find, hold and write records; only this module decides what becomes of one.

pub mod backoff;
