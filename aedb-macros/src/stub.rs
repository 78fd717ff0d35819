//! What stands for a task whose signature is wrong: a type of its name that takes anything, so that nobody else is blamed.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{FnArg, ItemFn};

use crate::function::{CFGS, attributes};
use crate::options::Options;

pub(crate) fn stub(options: &Options, function: &ItemFn) -> TokenStream {
    if function.sig.inputs.iter().any(|argument| matches!(argument, FnArg::Receiver(_))) {
        return TokenStream::new(); // an `impl` can hold no type
    }
    let (ident, vis, cfgs) = (&function.sig.ident, &function.vis, attributes(function, &CFGS));
    let (krate, name, queue) = (options.krate(), options.name_of(ident), options.queue_name());
    let children = options.follow_ups.iter().filter_map(|path| path.segments.last().map(|last| &last.ident));
    quote! {
        #(#cfgs)*
        #[allow(non_camel_case_types, dead_code, missing_docs)]
        #[derive(Clone, Copy, Debug, Default)]
        #vis struct #ident {}

        #(#cfgs)*
        #[allow(clippy::all, clippy::pedantic, dead_code, missing_docs)]
        const _: () = {
            use #krate::__private as __task;

            impl #ident {
                pub const NAME: &'static str = #name;
                pub const QUEUE: &'static str = #queue;

                pub fn with<I>(_: I) -> __task::Call<#ident> {
                    ::std::unreachable!()
                }

                pub fn enqueue<I>(_: &impl __task::Target, _: I) -> __task::Enqueue<'_, #ident> {
                    ::std::unreachable!()
                }

                pub fn enqueue_all<I>(_: &impl __task::Target, _: I) -> __task::EnqueueAll<'_> {
                    ::std::unreachable!()
                }

                #(pub fn #children<I>(_: I) -> __task::FollowUp {
                    ::std::unreachable!()
                })*
            }

            impl __task::Handler for #ident {
                type Input = ();
                type Output = ();

                fn name(&self) -> &str {
                    Self::NAME
                }

                async fn run(
                    &self,
                    _: (),
                    _: __task::TaskContext,
                ) -> ::std::result::Result<__task::Outcome, __task::TaskError> {
                    ::std::unreachable!()
                }
            }
        };
    }
}
