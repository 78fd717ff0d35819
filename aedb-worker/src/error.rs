//! How an attempt fails.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// The longest chain of causes that is kept; a cycle of causes must not loop for ever.
const CAUSES: usize = 32;

/// Why an attempt failed, and whether to try again.
///
/// Any error becomes one with `?` and is then retried by the task's own policy.
///
/// ```
/// use std::time::Duration;
/// use aedb_worker::{TaskError, TaskResult};
///
/// fn charge(cents: &str) -> Result<u32, TaskError> {
///     let cents: u32 = cents.parse().fatal()?; // no later attempt will read it better
///     if cents > 1_000_000 {
///         return Err(TaskError::new("the bank is closed").retry_after(Duration::from_secs(3600)));
///     }
///     Ok(cents)
/// }
/// assert!(charge("ten").unwrap_err().is_fatal());
/// ```
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

    /// A failure in the words of an error and of its causes.
    pub(crate) fn caused_by(error: &dyn StdError) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        for _ in 0..CAUSES {
            let Some(error) = cause else { break };
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self::new(message)
    }

    /// Whether trying again cannot help.
    pub fn is_fatal(&self) -> bool {
        self.retry == Retry::Never
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The chain of causes is kept, up to 32 of them. (`TaskError` is no `Error` itself, so that this can take every error.)
impl<E: StdError> From<E> for TaskError {
    fn from(error: E) -> Self {
        Self::caused_by(&error)
    }
}

/// Says of a result's error whether and when to try again, on the way to `?`.
pub trait TaskResult<T> {
    /// Trying again cannot help.
    ///
    /// # Errors
    ///
    /// The result's own, as a [`TaskError`].
    fn fatal(self) -> Result<T, TaskError>;

    /// Try again after this long.
    ///
    /// # Errors
    ///
    /// The result's own, as a [`TaskError`].
    fn retry_after(self, wait: Duration) -> Result<T, TaskError>;
}

impl<T, E: Into<TaskError>> TaskResult<T> for Result<T, E> {
    fn fatal(self) -> Result<T, TaskError> {
        self.map_err(|error| error.into().fatal())
    }

    fn retry_after(self, wait: Duration) -> Result<T, TaskError> {
        self.map_err(|error| error.into().retry_after(wait))
    }
}
