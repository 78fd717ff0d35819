//! The limits that every call is checked against at the door; each is a typed error that names the limit and the value.

use std::time::Duration;

use crate::error::{Error, Result};

/// Bytes of a task's payload.
pub const PAYLOAD_BYTES: usize = 1 << 20;
/// Bytes of a result.
pub const RESULT_BYTES: usize = 256 << 10;
/// Bytes of recorded progress.
pub const PROGRESS_BYTES: usize = 256 << 10;
/// Bytes of an error text; a longer one is cut and marked.
pub const ERROR_BYTES: usize = 8 << 10;
/// Bytes of a queue, task, lease, owner, caller, project or scope name.
pub const NAME_BYTES: usize = 255;
/// Bytes of an idempotency key.
pub const IDEMPOTENCY_KEY_BYTES: usize = 512;
/// Bytes of a task's metadata, keys and values together.
pub const METADATA_BYTES: usize = 8 << 10;
/// Bytes of what the holder of a lease says about itself.
pub const NOTE_BYTES: usize = 64 << 10;
/// Tasks in one batch, items in one settle or heartbeat, effects in one commit.
pub const BATCH: usize = 10_000;
/// Tasks in one claim.
pub const CLAIM: usize = 10_000;
/// Tasks or leases in one page of a list.
pub const PAGE: usize = 1_000;
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// How deeply JSON may nest.
pub const JSON_DEPTH: usize = 128;
/// Bytes of an application key.
pub const KEY_BYTES: usize = 1 << 10;
/// Bytes of an application value.
pub const VALUE_BYTES: usize = 1 << 20;
/// Failures that a record remembers.
pub const FAILURES_KEPT: usize = 10;
/// The prefix of all keys that belong to the queue and lease layout; application keys may not begin with it.
pub const RESERVED_PREFIX: &[u8] = b"\x00aedb:";

/// Checks a name: 1 to 255 bytes, no control characters (they have no business in a terminal or a log).
pub(crate) fn name<'a>(what: &'static str, name: &'a str) -> Result<&'a str> {
    if name.is_empty() {
        return Err(Error::invalid(format!("{what} is empty; it takes 1 to {NAME_BYTES} bytes")));
    }
    at_most(what, NAME_BYTES, name.len())?;
    no_controls(what, name)?;
    Ok(name)
}

/// Checks an idempotency key: 1 to 512 bytes, no control characters.
pub(crate) fn idempotency_key(key: &str) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid(format!("idempotency key is empty; it takes 1 to {IDEMPOTENCY_KEY_BYTES} bytes")));
    }
    at_most("idempotency key bytes", IDEMPOTENCY_KEY_BYTES, key.len())?;
    no_controls("idempotency key", key)
}

/// Checks a lease length: 1 second to 24 hours.
pub(crate) fn lease(length: Duration) -> Result<()> {
    if (LEASE_MIN..=LEASE_MAX).contains(&length) {
        return Ok(());
    }
    Err(Error::invalid(format!("a lease of {length:?} is outside of {LEASE_MIN:?} to {LEASE_MAX:?}")))
}

/// Checks a budget: at least 1, since a task without any could never run.
pub(crate) fn budget(what: &'static str, budget: u32) -> Result<()> {
    if budget > 0 { Ok(()) } else { Err(Error::invalid(format!("{what} is {budget}; it takes at least 1"))) }
}

/// Checks an application key: 1 to 1,024 bytes, outside of the reserved prefix (contract rule 16).
pub(crate) fn application_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid("an application key is empty"));
    }
    if key.starts_with(RESERVED_PREFIX) {
        return Err(Error::invalid("an application key begins with the reserved prefix \\x00aedb:, choose another"));
    }
    at_most("key bytes", KEY_BYTES, key.len())
}

/// Checks a size.
pub(crate) fn at_most(what: &'static str, max: usize, actual: usize) -> Result<()> {
    if actual <= max { Ok(()) } else { Err(Error::too_large(what, max as u64, actual as u64)) }
}

fn no_controls(what: &'static str, text: &str) -> Result<()> {
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => Err(Error::invalid(format!("{what} contains the control character U+{:04X}", u32::from(c)))),
    }
}

/// Makes an error text safe to store and print: no NUL, at most [`ERROR_BYTES`], with a mark where it was cut.
pub(crate) fn error_text(text: &str) -> String {
    const MARK: &str = " … (cut)";
    let clean = text.replace('\0', "\u{fffd}");
    if clean.len() <= ERROR_BYTES {
        return clean;
    }
    let end = clean.floor_char_boundary(ERROR_BYTES - MARK.len());
    format!("{}{MARK}", clean.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn c14_c51_names_are_checked_and_emoji_are_fine() {
        assert!(name("queue name", "").is_err());
        assert!(name("queue name", "a\0b").is_err());
        assert!(name("queue name", "a\x1bb").is_err());
        assert_eq!(name("queue name", &"x".repeat(256)).map_err(|e| e.kind()), Err(ErrorKind::TooLarge));
        assert!(name("queue name", "курица 🐓").is_ok());
        assert!(idempotency_key("").is_err());
        assert!(idempotency_key(&"k".repeat(513)).is_err());
    }

    #[test]
    fn c50_c53_error_texts_are_made_safe_and_cut_with_a_mark() {
        assert_eq!(error_text("a\0b"), "a\u{fffd}b");
        let cut = error_text(&"🐓".repeat(1 << 20));
        assert!(cut.len() <= ERROR_BYTES && cut.ends_with("(cut)"));
    }

    #[test]
    fn leases_and_reserved_keys_are_bounded() {
        assert!(lease(Duration::from_millis(999)).is_err());
        assert!(lease(Duration::from_micros(u64::MAX)).is_err());
        assert!(lease(LEASE_MIN).is_ok() && lease(LEASE_MAX).is_ok());
        assert!(application_key(b"\x00aedb:lease:x").is_err());
        assert!(application_key(b"\x00aedc").is_ok());
    }
}
