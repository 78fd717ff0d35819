//! The `#[task]` attribute of `aedb-worker`, which re-exports and documents it.
//!
//! A pipeline: [`options`] and [`function`] read what was written and collect every mistake, [`expand`] writes the handler. A
//! mistake never hides the function itself: it is emitted as it was written, so that one mistake gives one message.

mod duration;
mod expand;
mod function;
mod mistakes;
mod options;

use proc_macro::TokenStream;
use quote::quote;

/// Makes a function a task. Documented at `aedb_worker::task`.
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = proc_macro2::TokenStream::from(item);
    let mut mistakes = mistakes::Mistakes::default();
    let options = mistakes.take(syn::parse::<options::Options>(options));
    let function = mistakes.take(syn::parse2::<syn::ItemFn>(item.clone()).map_err(function::not_a_function));
    let task = function.and_then(|function| mistakes.take(function::Function::read(function)));
    match (options, task) {
        (Some(options), Some(task)) if mistakes.is_empty() => {
            let handler = expand::expand(&options, &task);
            quote!(#item #handler).into()
        }
        _ => {
            let errors = mistakes.into_tokens();
            quote!(#item #errors).into()
        }
    }
}
