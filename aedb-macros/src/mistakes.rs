//! Every mistake of an attribute, so that all are told at once.

use proc_macro2::TokenStream;
use syn::{Error, Result};

#[derive(Default)]
pub(crate) struct Mistakes(Option<Error>);

impl Mistakes {
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(mistakes) => mistakes.combine(error),
            none => *none = Some(error),
        }
    }

    /// The value, or one more mistake.
    pub(crate) fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// The value, unless there are mistakes.
    pub(crate) fn finish<T>(self, value: T) -> Result<T> {
        self.0.map_or(Ok(value), Err)
    }

    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.map_or_else(TokenStream::new, |mistakes| mistakes.into_compile_error())
    }
}
