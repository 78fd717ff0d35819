//! Damaged bytes: never delivered, never in the way, found by `check`, put right by `repair`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod file;
mod keys;
mod leases;
mod leftovers;
mod records;
mod stray;
