//! What a task's function may return, whatever its form, as one outcome.
//!
//! The forms overlap as types (a `Result` of two values is a value, too), so the choice is made where the concrete type is known: by
//! the order in which the compiler looks for a method, from the most particular form to the most general.

use std::cell::Cell;
use std::error::Error as StdError;
use std::fmt::Display;

use serde::Serialize;

use crate::error::TaskError;
use crate::outcome::Outcome;

/// A value or an outcome: what stands inside of a `Result`, or alone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a task returns",
    label = "return `()`, a value that can be serialized, an `Outcome`, or a `Result` of one of these",
    note = "if this is another name for a `Result`, let the name end in `Result`"
)]
pub trait Returned {
    /// The result that the finished task keeps.
    type Output: Serialize;

    /// As an outcome.
    fn into_outcome(self) -> Outcome<Self::Output>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize> Returned for T {
    type Output = T;

    fn into_outcome(self) -> Outcome<T> {
        Outcome::done(self)
    }
}

impl<T: Serialize> Returned for Outcome<T> {
    type Output = T;

    fn into_outcome(self) -> Self {
        self
    }
}

/// A `Result` under any name.
pub trait AnyResult {
    /// What it holds when all went well.
    type Ok;
}

impl<T, E> AnyResult for Result<T, E> {
    type Ok = T;
}

/// What a function returned, once.
pub struct Value<R>(Cell<Option<R>>);

impl<R> std::fmt::Debug for Value<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value")
    }
}

impl<R> Value<R> {
    /// What it returned.
    pub fn new(returned: R) -> Self {
        Self(Cell::new(Some(returned)))
    }

    fn take(&self) -> Result<R, TaskError> {
        self.0.take().ok_or_else(|| TaskError::new("what the task returned was asked for twice"))
    }
}

/// A `Result` whose error says itself whether to try again.
pub trait ByTaskError {
    /// What the task keeps.
    type Output;
    /// As an outcome.
    ///
    /// # Errors
    ///
    /// The function's own.
    fn decide(&self) -> Result<Outcome<Self::Output>, TaskError>;
}

impl<T: Returned> ByTaskError for &&&Value<Result<T, TaskError>> {
    type Output = T::Output;

    fn decide(&self) -> Result<Outcome<T::Output>, TaskError> {
        Ok(self.take()??.into_outcome())
    }
}

/// A `Result` with an error of the standard kind: its causes are kept.
pub trait ByError {
    /// What the task keeps.
    type Output;
    /// As an outcome.
    ///
    /// # Errors
    ///
    /// The function's own.
    fn decide(&self) -> Result<Outcome<Self::Output>, TaskError>;
}

impl<T: Returned, E: StdError> ByError for &&Value<Result<T, E>> {
    type Output = T::Output;

    fn decide(&self) -> Result<Outcome<T::Output>, TaskError> {
        Ok(self.take()??.into_outcome())
    }
}

/// A `Result` with any other error that can be shown.
pub trait ByDisplay {
    /// What the task keeps.
    type Output;
    /// As an outcome.
    ///
    /// # Errors
    ///
    /// The function's own.
    fn decide(&self) -> Result<Outcome<Self::Output>, TaskError>;
}

impl<T: Returned, E: Display> ByDisplay for &Value<Result<T, E>> {
    type Output = T::Output;

    fn decide(&self) -> Result<Outcome<T::Output>, TaskError> {
        // The long form shows the causes of error types that have one.
        Ok(self.take()?.map_err(|error| TaskError::new(format!("{error:#}")))?.into_outcome())
    }
}

/// No `Result`: a value or an outcome.
pub trait ByValue {
    /// What the task keeps.
    type Output;
    /// As an outcome.
    ///
    /// # Errors
    ///
    /// Never in generated code, which asks once.
    fn decide(&self) -> Result<Outcome<Self::Output>, TaskError>;
}

impl<T: Returned> ByValue for Value<T> {
    type Output = T::Output;

    fn decide(&self) -> Result<Outcome<T::Output>, TaskError> {
        Ok(self.take()?.into_outcome())
    }
}
