//! What a test has tried, for the table at the end of `tests/run`. Tests of other crates include this file by its path.

use std::io::Write;

/// Tells a line of the table: what was done, and how much of it. Without `tests/run` it is only printed.
pub(crate) fn tell(what: &str, much: &str) {
    println!("{what}: {much}");
    let Ok(file) = std::env::var("AEDB_SUMMARY") else { return };
    let line = format!("{what}\t{much}\n");
    // A table without a line is no reason to fail.
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
}
