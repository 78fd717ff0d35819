//! The `#[task]` attribute of `aedb-worker`, which re-exports and documents it.
//!
//! A pipeline: `options` and `function` read what was written and collect every mistake, `expand` writes the handler. A
//! mistake hides neither the function nor the type of its name, so that one mistake gives one message: a bad option is left out,
//! and a bad signature gets a type that takes anything.

mod duration;
mod expand;
mod function;
mod mistakes;
mod options;
mod retry;
mod stub;
mod unique;

use proc_macro::TokenStream;
use quote::quote;

/// Makes a function a task. Documented at `aedb_worker::task`.
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = proc_macro2::TokenStream::from(item);
    let (options, mut mistakes) = options::Options::read_all(options.into());
    let function = mistakes.take(syn::parse2::<syn::ItemFn>(item.clone()).map_err(function::not_a_function));
    let task = function.map(|function| match function::Function::read(&function) {
        Ok(task) => expand::expand(&options, &task),
        Err(error) => {
            mistakes.add(error);
            stub::stub(&options, &function)
        }
    });
    let errors = mistakes.into_tokens();
    quote!(#item #task #errors).into()
}
