//! How an attempt fails.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// Why an attempt failed, and whether to try again.
///
/// Any error becomes one with `?` and is then retried by the task's own policy.
#[derive(Debug)]
pub struct TaskError {
    message: String,
    pub(crate) retry: Retry,
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    ByPolicy,
    After(Duration),
    Never,
}

impl TaskError {
    /// A failure in words.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retry: Retry::ByPolicy }
    }

    /// Trying again cannot help: the task is dead at once.
    #[must_use]
    pub fn fatal(mut self) -> Self {
        self.retry = Retry::Never;
        self
    }

    /// Try again after this long, instead of by the policy. The failure is charged all the same.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry = Retry::After(wait);
        self
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The whole chain of causes is kept. (`TaskError` is no `Error` itself, so that this can take every error there is.)
impl<E: StdError> From<E> for TaskError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self::new(message)
    }
}
