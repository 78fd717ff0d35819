//! Whether a type can be an input, asked once.
//!
//! Four bounds that do not hold would be four messages. So a constant says whether all of them do, and its value chooses between an
//! implementation and a message.

use std::marker::PhantomData;

use crate::handler::TaskInput;

/// A type that may be an input.
#[derive(Debug)]
pub struct Input<T>(PhantomData<T>);

/// What is so for types that have no constant of their own.
pub trait NoInput {
    /// It cannot be one.
    const FITS: bool = false;
}

impl<T> NoInput for Input<T> {}

impl<T: TaskInput> Input<T> {
    /// It can.
    pub const FITS: bool = true;
}

/// A type that fits.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of a task",
    label = "the queue keeps it as JSON: it needs `#[derive(serde::Serialize, serde::Deserialize)]`",
    note = "it must also own what it holds, and be `Send`"
)]
pub trait Fits<const FITS: bool> {}

impl<T> Fits<true> for T {}

/// The one place where a type that does not fit is told of.
pub const fn fits<T: Fits<FITS>, const FITS: bool>() {}

/// A type that was asked whether it fits. One that does not has another in its place, of which nobody complains.
pub trait Asked<const FITS: bool>: Sized {
    /// The same type.
    type Input: TaskInput;
    /// The same value.
    fn into_input(self) -> Self::Input;
    /// The same value.
    fn from_input(input: Self::Input) -> Self;
}

impl<T: TaskInput> Asked<true> for T {
    type Input = T;

    fn into_input(self) -> T {
        self
    }

    fn from_input(input: T) -> T {
        input
    }
}

impl<T> Asked<false> for T {
    type Input = ();

    fn into_input(self) {}

    fn from_input((): ()) -> T {
        unreachable!("it does not compile")
    }
}
