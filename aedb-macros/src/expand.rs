//! What a task becomes: a type of the function's name, which is its handler.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{LitStr, Path};

use crate::function::{Function, Kind};
use crate::options::{Options, Unique};

pub(crate) fn expand(options: &Options, function: &Function) -> TokenStream {
    let Function { ident, vis, docs, .. } = function;
    let krate = options.krate();
    let name = options.name.clone().unwrap_or_else(|| LitStr::new(&ident.to_string(), ident.span()));
    let queue = options.queue.as_ref().map_or_else(|| "default".to_owned(), LitStr::value);
    let (handler, inherent) = (handler(options, function), inherent(options, function));
    let title = format!("The task `{}` of the queue `{queue}`, which the function of this name runs.", name.value());
    quote! {
        #[doc = #title]
        #[doc = ""]
        #(#docs)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, Default)]
        #vis struct #ident {}

        #[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub)]
        const _: () = {
            use #krate::__private as __task;

            impl #ident {
                /// The name that the queue knows it by.
                pub const NAME: &'static str = #name;
                /// The queue that it is enqueued to unless one says otherwise.
                pub const QUEUE: &'static str = #queue;
                #inherent
            }

            #handler
        };
    }
}

fn handler(options: &Options, function: &Function) -> TokenStream {
    let Function { ident, input, extractors, returns, .. } = function;
    let returned = &returns.ty;
    let output = if returns.is_result {
        quote_spanned!(returned.span()=> <<#returned as __task::AnyResult>::Ok as __task::Returned>::Output)
    } else {
        quote_spanned!(returned.span()=> <#returned as __task::Returned>::Output)
    };
    let names: Vec<_> = (0..extractors.len()).map(|n| format_ident!("__extractor_{n}")).collect();
    // One constant for each, so that a type that is no extractor is told of once, where it stands.
    let constants = extractors.iter().zip(&names).map(|(ty, name)| {
        let new = quote_spanned!(ty.span()=> __task::extractor::<#ty>());
        quote!(#[allow(non_upper_case_globals)] const #name: __task::Extractor<#ty> = #new;)
    });
    let (defaults, run, decode) = (defaults(options), run(function, &names), decode(options));
    let aliases = &options.aliases;
    let follow_ups = options.follow_ups.iter().map(|path| quote_spanned!(path.span()=> __task::Edge::to::<#path>()));
    quote! {
        #(#constants)*

        impl __task::Handler for #ident {
            type Input = #input;
            type Output = #output;

            fn name(&self) -> &str {
                Self::NAME
            }

            fn defaults(&self) -> __task::Defaults {
                #defaults
            }

            fn aliases(&self) -> &[&str] {
                &[#(#aliases),*]
            }

            fn needs(&self, needs: &mut __task::Needs<'_>) {
                let _ = &needs;
                #(#names.needs(needs);)*
            }

            fn follow_ups(&self) -> ::std::vec::Vec<__task::Edge> {
                ::std::vec![#(#follow_ups),*]
            }

            #decode

            #run
        }
    }
}

/// A local name that no name of the user's can meet.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn run(function: &Function, names: &[Ident]) -> TokenStream {
    let ident = &function.ident;
    let (input, cx, returned) = (local("input"), local("cx"), local("returned"));
    let locals: Vec<_> = (0..names.len()).map(|n| local(&format!("extracted_{n}"))).collect();
    let call = quote!(#ident(#input #(, #locals)*));
    let call = match function.kind {
        Kind::Async => quote!(#call.await),
        Kind::Blocking => quote!(__task::blocking(move || #call).await),
    };
    quote! {
        async fn run(
            &self,
            #input: Self::Input,
            #cx: __task::TaskContext,
        ) -> ::std::result::Result<__task::Outcome<Self::Output>, __task::TaskError> {
            #[allow(unused_imports)]
            use __task::{ByDisplay as _, ByError as _, ByTaskError as _, ByValue as _};
            #(let #locals = #names.get(&#cx)?;)*
            ::std::mem::drop(#cx);
            let #returned = __task::Value::new(#call);
            (&&&&#returned).decide()
        }
    }
}

/// Reading the input, also in the forms it had in earlier versions.
fn decode(options: &Options) -> TokenStream {
    let (Some(version), Some(upgrade)) = (&options.version, &options.upgrade) else { return TokenStream::new() };
    let (cx, older) = (local("cx"), local("older"));
    quote! {
        fn decode(&self, #cx: &__task::TaskContext) -> ::std::result::Result<Self::Input, __task::TaskError> {
            match __task::version(#cx) {
                #version => ::std::result::Result::Ok(#cx.payload()?),
                #older => __task::upgraded(#upgrade(#older, __task::payload(#cx))),
            }
        }
    }
}

fn defaults(options: &Options) -> TokenStream {
    let mut calls = Vec::new();
    let mut span = |method: &str, span: Option<Duration>| {
        if let Some(span) = span {
            let (method, span) = (format_ident!("{method}"), duration(span));
            calls.push(quote!(.#method(#span)));
        }
    };
    span("timeout", options.timeout);
    span("lease", options.lease);
    span("keep", options.retention);
    if let Some(queue) = &options.queue {
        calls.push(quote!(.queue(#queue)));
    }
    if let Some(priority) = &options.priority {
        calls.push(quote!(.priority(#priority)));
    }
    if let Some(version) = &options.version {
        calls.push(quote!(.version(#version)));
    }
    if let Some(max) = &options.retry.max {
        calls.push(quote!(.max_attempts(#max)));
    }
    calls.extend(backoff(options));
    quote!(__task::Defaults::new()#(#calls)*)
}

fn backoff(options: &Options) -> Option<TokenStream> {
    let retry = &options.retry;
    if retry.base.is_none() && retry.cap.is_none() && retry.jitter.is_none() {
        return None;
    }
    let base = retry.base.map_or_else(|| quote!(__task::Backoff::default().base()), duration);
    let cap = retry.cap.map_or_else(|| quote!(__task::Backoff::default().cap()), duration);
    let jitter = retry.jitter.as_ref().map(|percent| quote!(.jitter(#percent)));
    Some(quote!(.backoff(__task::Backoff::exponential(#base, #cap)#jitter)))
}

/// Enqueuing, and one function for each declared follow-up.
fn inherent(options: &Options, function: &Function) -> TokenStream {
    let Function { ident, input, .. } = function;
    let (given, call) = (local("given"), local("call"));
    let key = options.unique.as_ref().map_or_else(|| quote!(#call), |key| unique(key, &given, &call));
    let follow_ups = options.follow_ups.iter().map(follow_up);
    quote! {
        /// A call with this input, to be enqueued as a batch or with other work.
        pub fn with(#given: #input) -> __task::Call<#ident> {
            let #call = __task::Call::new(#ident {}, &#given);
            #key
        }

        /// Enqueues a call, to the task's own queue of a database or scope, or to a given queue. Await it.
        pub fn enqueue(to: &impl __task::Target, input: #input) -> __task::Enqueue<'_, #ident> {
            Self::with(input).to(to)
        }

        /// Enqueues a call and waits for its result.
        pub async fn enqueue_and_wait(
            to: &impl __task::Target,
            input: #input,
            timeout: ::std::time::Duration,
        ) -> ::std::result::Result<<#ident as __task::Handler>::Output, __task::WaitError>
        where
            <#ident as __task::Handler>::Output: __task::DeserializeOwned,
        {
            Self::with(input).to(to).wait(timeout).await
        }

        #(#follow_ups)*
    }
}

/// The key, of fields or of an expression that sees the input as `input`.
fn unique(unique: &Unique, given: &Ident, call: &Ident) -> TokenStream {
    let key = match &unique.key {
        Some(key) => quote!({
            let input = &#given;
            __task::Json::of(&(#key))
        }),
        None => {
            let fields = &unique.fields;
            quote!(__task::Json::of(&(#(&#given.#fields,)*)))
        }
    };
    let window = unique.window.map_or_else(
        || quote!(::std::option::Option::None),
        |window| {
            let window = duration(window);
            quote!(::std::option::Option::Some(#window))
        },
    );
    quote!(#call.unique(#key, #window))
}

/// `parent::child(input)`: only what is declared can be called so, and only with its own input.
fn follow_up(path: &Path) -> TokenStream {
    let Some(child) = path.segments.last().map(|segment| &segment.ident) else { return TokenStream::new() };
    let title = format!("A follow-up of this task: `{child}` with this input. Give it to `Outcome::then`.");
    quote_spanned! {path.span()=>
        #[doc = #title]
        pub fn #child(input: <#path as __task::Handler>::Input) -> __task::FollowUp {
            #path::with(input).into_follow_up()
        }
    }
}

fn duration(span: Duration) -> TokenStream {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    quote!(::std::time::Duration::from_millis(#millis))
}
