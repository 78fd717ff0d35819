//! Several processes on a shared file, killed or out of disk at any moment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod disk;
mod kill;
mod one_key;
mod process;
mod redelivery;
mod roles;
#[path = "../../../tests/src/summary.rs"]
mod summary;
mod waiting;
