//! What only a store in a file or in memory promises, or can be tested on: its disk, its threads, its processes, its clock.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod callers;
mod delivery;
mod fencing;
mod hostile_text;
mod interleavings;
mod keys_and_windows;
mod limits;
mod opening;
mod power;
mod reclaim;
mod retention;
mod wait_for;
mod waiting;
