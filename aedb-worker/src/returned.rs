//! What a task's function may return, whatever its form, as one outcome.
//!
//! The forms overlap as types (a `Result` of two values is a value, too), so no trait alone can tell them apart. [`Form`] can, where
//! the type is concrete: its own constants exist for some types only and hide those of [`Otherwise`], which all types have. The
//! numbers that come of it then choose the implementation, so that names of types, such as `io::Result<T>`, are what they stand for.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use crate::error::TaskError;
use crate::outcome::Outcome;

type Boxed = Box<dyn StdError + Send + Sync>;

const VALUE: u8 = 0;
const OUTCOME: u8 = 1;
const RESULT: u8 = 2;
const RESULT_OF_OUTCOME: u8 = 3;

const UNKNOWN: u8 = 0;
const INTO_TASK_ERROR: u8 = 1;
const INTO_BOXED: u8 = 2;
const SHOWN: u8 = 3;

/// Which form a type has.
#[derive(Debug)]
pub struct Form<R>(PhantomData<R>);

/// What is so for types that have no constant of their own.
pub trait Otherwise {
    /// It is no outcome.
    const IS_OUTCOME: bool = false;
    /// It is no result.
    const IS_RESULT: bool = false;
    /// It is no result of an outcome.
    const IS_RESULT_OF_OUTCOME: bool = false;
    /// Its error does not say itself whether to try again, and is not of the standard kind.
    const HAS_TASK_ERROR: bool = false;
    /// Its error cannot be boxed.
    const HAS_BOXED: bool = false;
    /// Its error cannot be shown.
    const HAS_DISPLAY: bool = false;
}

impl<R> Otherwise for Form<R> {}

impl<T> Form<Outcome<T>> {
    /// It is an outcome.
    pub const IS_OUTCOME: bool = true;
}

impl<T, E> Form<Result<T, E>> {
    /// It is a result.
    pub const IS_RESULT: bool = true;
}

impl<T, E> Form<Result<Outcome<T>, E>> {
    /// It is a result of an outcome.
    pub const IS_RESULT_OF_OUTCOME: bool = true;
}

impl<T, E: Into<TaskError>> Form<Result<T, E>> {
    /// Its error says itself whether to try again, or is of the standard kind.
    pub const HAS_TASK_ERROR: bool = true;
}

impl<T, E: Into<Boxed>> Form<Result<T, E>> {
    /// Its error can be boxed, as those of `anyhow` and texts can.
    pub const HAS_BOXED: bool = true;
}

impl<T, E: Display> Form<Result<T, E>> {
    /// Its error can be shown.
    pub const HAS_DISPLAY: bool = true;
}

/// The number of a form.
pub const fn form(is_outcome: bool, is_result: bool, is_result_of_outcome: bool) -> u8 {
    match (is_outcome, is_result, is_result_of_outcome) {
        (true, _, _) => OUTCOME,
        (_, _, true) => RESULT_OF_OUTCOME,
        (_, true, _) => RESULT,
        _ => VALUE,
    }
}

/// The number of the best way to a [`TaskError`]; a type that is no result never fails.
pub const fn failure(is_result: bool, has_task_error: bool, has_boxed: bool, has_display: bool) -> u8 {
    match (has_task_error, has_boxed, has_display) {
        (true, _, _) => INTO_TASK_ERROR,
        (_, true, _) => INTO_BOXED,
        (_, _, true) => SHOWN,
        _ if is_result => UNKNOWN,
        _ => INTO_TASK_ERROR,
    }
}

/// What a function returned, taken apart by the number of its form.
pub trait Returned<const FORM: u8> {
    /// The result that the finished task keeps.
    type Output;
    /// Why it can fail.
    type Error;

    /// As an outcome.
    ///
    /// # Errors
    ///
    /// The function's own.
    fn into_outcome(self) -> Result<Outcome<Self::Output>, Self::Error>;
}

impl<T> Returned<VALUE> for T {
    type Output = T;
    type Error = Infallible;

    fn into_outcome(self) -> Result<Outcome<T>, Infallible> {
        Ok(Outcome::done(self))
    }
}

impl<T> Returned<OUTCOME> for Outcome<T> {
    type Output = T;
    type Error = Infallible;

    fn into_outcome(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

impl<T, E> Returned<RESULT> for Result<T, E> {
    type Output = T;
    type Error = E;

    fn into_outcome(self) -> Result<Outcome<T>, E> {
        self.map(Outcome::done)
    }
}

impl<T, E> Returned<RESULT_OF_OUTCOME> for Result<Outcome<T>, E> {
    type Output = T;
    type Error = E;

    fn into_outcome(self) -> Self {
        self
    }
}

/// An error, on the way that its number says.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be why a task fails",
    label = "the error of a task becomes text: implement `std::error::Error` or `Display`, or return a `TaskError`"
)]
pub trait Failure<const WAY: u8> {
    /// As the failure of an attempt.
    fn into_task_error(self) -> TaskError;
}

impl<E: Into<TaskError>> Failure<INTO_TASK_ERROR> for E {
    fn into_task_error(self) -> TaskError {
        self.into()
    }
}

impl<E: Into<Boxed>> Failure<INTO_BOXED> for E {
    fn into_task_error(self) -> TaskError {
        TaskError::caused_by(&*self.into())
    }
}

impl<E: Display> Failure<SHOWN> for E {
    fn into_task_error(self) -> TaskError {
        // The long form shows the causes of error types that have one.
        TaskError::new(format!("{self:#}"))
    }
}

/// How a function fails. Only making it asks for the bound, so that an error that cannot become text is told of once.
pub const fn fails<const FORM: u8, const WAY: u8, R>() -> fn(R::Error) -> TaskError
where
    R: Returned<FORM, Error: Failure<WAY>>,
{
    <R::Error as Failure<WAY>>::into_task_error
}

/// An attempt on its way, whatever the function's own future is.
pub type Attempt<T> = Pin<Box<dyn Future<Output = Result<Outcome<T>, TaskError>> + Send>>;

/// Runs what a function made of its arguments, unless an extractor failed. In a box, so that a future that cannot be sent is told of
/// once.
pub fn attempt<const FORM: u8, F>(
    future: Result<F, TaskError>,
    fails: fn(<F::Output as Returned<FORM>>::Error) -> TaskError,
) -> Attempt<<F::Output as Returned<FORM>>::Output>
where
    F: Future<Output: Returned<FORM>> + Send + 'static,
{
    Box::pin(async move { future?.await.into_outcome().map_err(fails) })
}
