//! What went wrong on the way to the server, and what it means for a commit: applied, not applied, or unknown.

use crate::error::{Error, ErrorKind};

/// An error inside a verb: the store's own word, or the server's.
#[derive(Debug)]
pub(super) enum Fault {
    Said(Error),
    Sql(sqlx::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// Whether the server undid it because of another transaction, so that doing it again is right.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self.code().as_deref(), Some("40001" | "40P01"))
    }

    /// Whether the connection is of no more use: it was lost, the server ends it, or has become a standby that takes no writes.
    pub(super) fn breaks_the_connection(&self) -> bool {
        match self {
            Self::Said(_) => false,
            Self::Sql(sqlx::Error::Database(_)) => {
                self.code().is_none_or(|code| code.starts_with("08") || code.starts_with("57P") || code == "25006")
            }
            Self::Sql(_) => true,
        }
    }

    /// The error of a call that changes nothing, or whose commit was not sent yet.
    pub(super) fn not_applied(self) -> Error {
        let code = self.code();
        match self {
            Self::Said(error) => error,
            Self::Sql(error) => match code.as_deref() {
                Some("42P01" | "42883" | "3F000") => {
                    Error::invalid(format!("the schema is not there or is of another version, migrate it: {error}"))
                }
                Some("42501") => Error::new(ErrorKind::PermissionDenied, error.to_string()),
                _ => {
                    Error::new(ErrorKind::Unavailable, format!("PostgreSQL cannot serve: {error}; nothing was applied"))
                }
            }
            .caused_by(error),
        }
    }

    /// The error of a call whose commit was sent. Only an error that the server reports, and goes on, says that it failed.
    pub(super) fn maybe_applied(self) -> Error {
        match &self {
            Self::Said(_) => self.not_applied(),
            Self::Sql(error) => match self.code() {
                Some(code) if !code.starts_with("08") && !code.starts_with("57P") && code != "40003" => {
                    self.not_applied()
                }
                _ => Error::new(ErrorKind::UnknownOutcome, format!("the answer to a commit did not come: {error}"))
                    .maybe_caused_by(self),
            },
        }
    }

    fn code(&self) -> Option<String> {
        match self {
            Self::Sql(sqlx::Error::Database(error)) => error.code().map(|code| code.into_owned()),
            _ => None,
        }
    }
}

impl Error {
    fn maybe_caused_by(self, fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => self.caused_by(error),
            Fault::Said(_) => self,
        }
    }
}
