//! One target of `aedb_queue::hostile`, the one that `AEDB_TARGET` names, under libFuzzer. `tests/fuzz/run` builds and runs this.

#![no_main]

use std::sync::LazyLock;

use aedb_queue::hostile::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let asked = std::env::var("AEDB_TARGET").unwrap_or_default();
    let known = TARGETS.map(|(name, _)| name).join(", ");
    TARGETS.into_iter().find(|(name, _)| *name == asked).unwrap_or_else(|| panic!("AEDB_TARGET is one of {known}"))
});

fuzz_target!(|bytes: &[u8]| (TARGET.1)(bytes));
