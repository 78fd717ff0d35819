//! Texts that are refused before they reach any store.

use aedb_queue::{Error, ErrorKind, Json};

/// The kind of what a call answered.
fn kind<T: std::fmt::Debug>(answer: Result<T, Error>) -> ErrorKind {
    answer.unwrap_err().kind()
}

#[test]
fn json_that_nests_too_deeply_is_refused() {
    assert!(Json::parse("[".repeat(1 << 20)).is_err());
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(kind(Json::parse(deep)), ErrorKind::TooLarge);
}
