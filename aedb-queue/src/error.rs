//! What can go wrong, sorted by what the caller should do about it.

use std::error::Error as StdError;
use std::fmt;

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An assertion on a key did not hold. Read again, decide again, commit again. Nothing was applied.
    Conflict,
    /// The lease is not held any more. Stop the work; someone else owns it.
    LeaseLost,
    /// There is nothing by that name or id. Check what was asked for.
    NotFound,
    /// The input is not acceptable. Correct the call; repeating it cannot help. Nothing was applied.
    Invalid,
    /// The input is over a limit; see [`Error::limit`]. Make it smaller. Nothing was applied.
    TooLarge,
    /// The caller has no grant for this. Ask for one. Nothing was applied.
    PermissionDenied,
    /// The store cannot serve now. Nothing was applied. Try later, or reopen the database if the message says so.
    Unavailable,
    /// The commit may or may not have happened. Ask (by id, key or token) before doing it again.
    UnknownOutcome,
    /// Stored bytes are not what was written. Run `check`, and restore what it names.
    Corrupt,
}

/// The limit that an input was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// What is limited, for example `"payload bytes"`.
    pub name: &'static str,
    /// The largest accepted value.
    pub max: u64,
    /// The value that was given.
    pub actual: u64,
}

/// An error of the queue: a kind to act on, a sentence to read, and a cause where there is one.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    limit: Option<Limit>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of a kind, with a sentence that says what happened and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into_boxed_str(), limit: None, source: None }
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// An input over a limit, of kind [`ErrorKind::TooLarge`].
    pub fn too_large(name: &'static str, max: u64, actual: u64) -> Self {
        let limit = Limit { name, max, actual };
        Self {
            limit: Some(limit),
            ..Self::new(ErrorKind::TooLarge, format!("{name}: {actual} is over the limit of {max}"))
        }
    }

    /// An input that can never be right, of kind [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The limit that was passed, if the kind is [`ErrorKind::TooLarge`].
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_over_a_limit_names_the_limit_and_the_value() {
        let error = Error::too_large("payload bytes", 10, 11);
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert_eq!(error.limit().map(|l| (l.name, l.max, l.actual)), Some(("payload bytes", 10, 11)));
        assert_eq!(error.to_string(), "payload bytes: 11 is over the limit of 10");
    }

    #[test]
    fn the_cause_is_kept() {
        let error = Error::new(ErrorKind::Unavailable, "the disk is full").caused_by("no space");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no space"));
    }
}
