//! What a task becomes: a type of the function's name, which is its handler.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Path, Type, Visibility};

use crate::function::{Function, Kind};
use crate::options::Options;
use crate::unique::Unique;

pub(crate) fn expand(options: &Options, function: &Function) -> TokenStream {
    let Function { ident, vis, docs, cfgs, .. } = function;
    let (krate, name, queue) = (options.krate(), options.name_of(ident), options.queue_name());
    let (handler, inherent) = (handler(options, function), inherent(options, function));
    let title = format!("The task `{}` of the queue `{queue}`, which the function of this name runs.", name.value());
    quote! {
        #[doc = #title]
        #[doc = ""]
        #(#docs)*
        #(#cfgs)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, Default)]
        #vis struct #ident {}

        #(#cfgs)*
        #[allow(clippy::all, clippy::pedantic, deprecated, missing_docs, unreachable_pub)]
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

            __task::collect!(#ident);
        };
    }
}

fn handler(options: &Options, function: &Function) -> TokenStream {
    let Function { ident, input, extractors, returns, .. } = function;
    let output_type = quote_spanned!(returns.span()=> type Output = <#returns as __task::Returned<__FORM>>::Output;);
    let names: Vec<_> = (0..extractors.len()).map(|n| format_ident!("__extractor_{n}")).collect();
    // One constant for each, so that a type that is no extractor is told of once, where it stands.
    let constants = extractors.iter().zip(&names).map(|(ty, name)| {
        let new = quote_spanned!(ty.span()=> __task::extractor::<#ty>());
        quote!(#[allow(non_upper_case_globals)] const #name: __task::Extractor<#ty> = #new;)
    });
    let (defaults, run, decode) = (defaults(options), run(function, &names), decode(options, input));
    let aliases = &options.aliases;
    let children: Vec<_> = (0..options.follow_ups.len()).map(child).collect();
    let paths = &options.follow_ups;
    let form = form(returns);
    // A type that is more private than the task is told of where it stands.
    let input_type = quote_spanned!(input.span()=> type Input = <#input as __task::Asked<__FITS>>::Input;);
    let fits = quote_spanned!(input.span()=> __task::fits::<#input, __FITS>());
    quote! {
        #form

        const __FITS: bool = {
            #[allow(unused_imports)]
            use __task::NoInput as _;
            __task::Input::<#input>::FITS
        };

        const _: () = #fits;

        #(#constants)*

        #(#[allow(non_camel_case_types)] type #children = #paths;)*

        impl __task::Handler for #ident {
            #input_type
            #output_type

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
                ::std::vec![#(__task::Edge::to::<#children>()),*]
            }

            #decode

            #run
        }
    }
}

/// The name of the n-th follow-up's type: one that is no task is told of where it is given this name, and nowhere else.
fn child(n: usize) -> Ident {
    format_ident!("__follow_up_{n}")
}

/// A local name that no name of the user's can meet.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The numbers of the form in which the function returns and fails; the type is concrete, so they are constants.
fn form(returns: &Type) -> TokenStream {
    let form = quote_spanned!(returns.span()=> __task::Form::<#returns>);
    let fails = quote_spanned!(returns.span()=> __task::fails::<__FORM, __WAY, #returns>());
    quote! {
        const __FORM: u8 = {
            #[allow(unused_imports)]
            use __task::Otherwise as _;
            __task::form(#form::IS_OUTCOME, #form::IS_RESULT, #form::IS_RESULT_OF_OUTCOME)
        };

        const __WAY: u8 = {
            #[allow(unused_imports)]
            use __task::Otherwise as _;
            __task::failure(#form::IS_RESULT, #form::HAS_TASK_ERROR, #form::HAS_BOXED, #form::HAS_DISPLAY)
        };

        const __FAILS: fn(<#returns as __task::Returned<__FORM>>::Error) -> __task::TaskError = #fails;
    }
}

fn run(function: &Function, names: &[Ident]) -> TokenStream {
    let ident = &function.ident;
    let (input, cx, future) = (local("input"), local("cx"), local("future"));
    let locals: Vec<_> = (0..names.len()).map(|n| local(&format!("extracted_{n}"))).collect();
    let call = quote!(#ident(__task::Asked::<__FITS>::from_input(#input) #(, #locals)*));
    let call = match function.kind {
        Kind::Async => call,
        Kind::Blocking => quote!(__task::blocking(move || #call)),
    };
    // A future that cannot be sent is told of at the function's name.
    let given = Ident::new("future", future.span().located_at(ident.span()));
    let attempt = quote_spanned!(ident.span()=> __task::attempt::<__FORM, _>(#given, __FAILS));
    quote! {
        #[allow(refining_impl_trait)]
        fn run(&self, #input: Self::Input, #cx: __task::TaskContext) -> __task::Attempt<Self::Output> {
            let #future = (move || {
                #(let #locals = #names.get(&#cx)?;)*
                ::std::result::Result::Ok::<_, __task::TaskError>(#call)
            })();
            #attempt
        }
    }
}

/// Reading the input, also in the forms it had in earlier versions.
fn decode(options: &Options, input: &Type) -> TokenStream {
    let (Some(version), Some(upgrade)) = (&options.version, &options.upgrade) else { return TokenStream::new() };
    let (cx, older) = (local("cx"), local("older"));
    let upgraded = quote_spanned!(upgrade.span()=> #upgrade(#older, __task::payload(#cx)?));
    quote! {
        fn decode(&self, #cx: &__task::TaskContext) -> ::std::result::Result<Self::Input, __task::TaskError> {
            match __task::version(#cx) {
                #older @ ..#version => {
                    __task::upgraded::<#input, _>(#upgraded).map(__task::Asked::<__FITS>::into_input)
                }
                _ => ::std::result::Result::Ok(#cx.payload()?),
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
    calls.push(quote!(.queue(Self::QUEUE)));
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
    let Function { ident, vis, input, .. } = function;
    let (given, key) = (local("given"), local("key"));
    let (key_of, keyed) = options.unique.as_ref().map(|found| unique(found, &given, &key)).unzip();
    let follow_ups = options.follow_ups.iter().enumerate().map(|(n, path)| follow_up(path, &child(n), vis));
    quote! {
        /// A call with this input, to be enqueued as a batch or with other work.
        pub fn with(#given: #input) -> __task::Call<#ident> {
            #key_of
            __task::Call::new(#ident {}, &__task::Asked::<__FITS>::into_input(#given))#keyed
        }

        /// Enqueues a call, to the task's own queue of a database or scope, or to a given queue. Await it.
        pub fn enqueue(to: &impl __task::Target, input: #input) -> __task::Enqueue<'_, #ident> {
            Self::with(input).to(to)
        }

        /// Enqueues a call for each input, in one commit: all or none. Await it.
        pub fn enqueue_all(
            to: &impl __task::Target,
            inputs: impl ::std::iter::IntoIterator<Item = #input>,
        ) -> __task::EnqueueAll<'_> {
            __task::EnqueueAll::new(to, Self::QUEUE, inputs.into_iter().map(|input| Self::with(input).into_task()))
        }

        /// Enqueues a call and waits for its result. Await it.
        pub fn enqueue_and_wait(
            to: &impl __task::Target,
            input: #input,
            timeout: ::std::time::Duration,
        ) -> __task::EnqueueAndWait<'_, #ident> {
            __task::EnqueueAndWait::new(Self::with(input).to(to), timeout)
        }

        #(#follow_ups)*
    }
}

/// The key, of fields or of an expression that sees the input as `input`, and how the call takes it.
fn unique(unique: &Unique, given: &Ident, key: &Ident) -> (TokenStream, TokenStream) {
    let of = match &unique.key {
        Some(expression) => quote!({
            let input = &#given;
            __task::Json::of(&(#expression))
        }),
        None => {
            let fields = &unique.fields;
            quote!(__task::Json::of(&(#(&#given.#fields,)*)))
        }
    };
    let window = unique.window.map(duration);
    let window = window
        .map_or_else(|| quote!(::std::option::Option::None), |window| quote!(::std::option::Option::Some(#window)));
    (quote!(let #key = #of;), quote!(.unique(#key, #window)))
}

/// `parent::child(input)`: only what is declared can be called so, and only with its own input.
fn follow_up(path: &Path, task: &Ident, vis: &Visibility) -> TokenStream {
    let Some(name) = path.segments.last().map(|segment| &segment.ident) else { return TokenStream::new() };
    let title = format!("A follow-up of this task: `{name}` with this input. Give it to `Outcome::then`.");
    quote_spanned! {path.span()=>
        #[doc = #title]
        #[allow(dead_code)]
        #vis fn #name(input: <#task as __task::Handler>::Input) -> __task::FollowUp {
            #task::with(input).into_follow_up()
        }
    }
}

fn duration(span: Duration) -> TokenStream {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    quote!(::std::time::Duration::from_millis(#millis))
}
