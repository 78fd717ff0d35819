//! Programs to copy; each runs with `cargo run --example NAME`.
