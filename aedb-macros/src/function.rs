//! The function behind a task: one input by value, then extractors.

use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, Ident, ItemFn, PatType, ReturnType, Type, TypeParamBound, Visibility};
use syn::{GenericArgument, PathArguments, Result};

use crate::mistakes::Mistakes;

/// Types that are extractors and cannot be the input.
const EXTRACTORS: [&str; 4] = ["TaskContext", "State", "Progress", "Meta"];

pub(crate) struct Function {
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    pub(crate) docs: Vec<Attribute>,
    /// Under which the function exists.
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) input: Type,
    pub(crate) extractors: Vec<Type>,
    /// What it returns, once it is awaited.
    pub(crate) returns: Type,
    pub(crate) kind: Kind,
}

/// How the function runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `async fn`, or one that returns `impl Future`.
    Async,
    /// It blocks its thread.
    Blocking,
}

/// What is said of an item that is no function.
pub(crate) fn not_a_function(error: Error) -> Error {
    Error::new(error.span(), "#[task] belongs on a function: `async fn name(input: Input) -> Result<Output, Error>`")
}

impl Function {
    pub(crate) fn read(function: &ItemFn) -> Result<Self> {
        let mut mistakes = Mistakes::default();
        check_signature(function, &mut mistakes);
        let mut types = Vec::new();
        for argument in &function.sig.inputs {
            if let Some(PatType { ty, .. }) = typed(argument, &mut mistakes) {
                types.push((**ty).clone());
            }
        }
        let mut types = types.into_iter();
        let input = types.next().unwrap_or_else(|| syn::parse_quote!(()));
        if function.sig.inputs.is_empty() {
            let sentence = "a task has one input, its first parameter; take `_: ()` if it needs none";
            mistakes.add(Error::new(function.sig.paren_token.span.join(), sentence));
        }
        check_input(&input, &mut mistakes);
        let extractors: Vec<_> = types.collect();
        for reference in extractors.iter().filter(|ty| matches!(ty, Type::Reference(_))) {
            mistakes
                .add(Error::new(reference.span(), "an extractor is taken by value: write its type without the `&`"));
        }
        let (returns, kind) = returns(function);
        if let Type::ImplTrait(_) = &returns {
            let sentence = "name the type that the task returns: it is what a caller waits for";
            mistakes.add(Error::new(returns.span(), sentence));
        }
        let (docs, cfgs) = (attributes(function, &["doc"]), attributes(function, &CFGS));
        let (ident, vis) = (function.sig.ident.clone(), function.vis.clone());
        mistakes.finish(Self { ident, vis, docs, cfgs, input, extractors, returns, kind })
    }
}

/// The attributes that decide whether an item exists at all.
pub(crate) const CFGS: [&str; 2] = ["cfg", "cfg_attr"];

/// The attributes of these names.
pub(crate) fn attributes(function: &ItemFn, names: &[&str]) -> Vec<Attribute> {
    let wanted = |attribute: &&Attribute| names.iter().any(|name| attribute.path().is_ident(name));
    function.attrs.iter().filter(wanted).cloned().collect()
}

fn check_signature(function: &ItemFn, mistakes: &mut Mistakes) {
    let sig = &function.sig;
    if let Some(word) = &sig.unsafety {
        mistakes.add(Error::new(word.span(), "a task cannot be `unsafe`: nobody could keep its promise when it runs"));
    }
    if let Some(word) = &sig.constness {
        mistakes.add(Error::new(word.span(), "a task cannot be `const`"));
    }
    if let Some(abi) = &sig.abi {
        mistakes.add(Error::new(abi.span(), "a task is a Rust function, not an `extern` one"));
    }
    if !sig.generics.params.is_empty() {
        let sentence = "a task has no generics: its payload must have one type that can be read back";
        mistakes.add(Error::new(sig.generics.span(), sentence));
    } else if let Some(clause) = &sig.generics.where_clause {
        mistakes.add(Error::new(clause.span(), "a task has no generics, so there is nothing to bound"));
    }
}

/// A parameter, unless it is `self`.
fn typed<'a>(argument: &'a FnArg, mistakes: &mut Mistakes) -> Option<&'a PatType> {
    match argument {
        FnArg::Typed(typed) => {
            if let Type::ImplTrait(_) = &*typed.ty {
                let sentence = "a task has no generics, and `impl Trait` is one: name the type";
                mistakes.add(Error::new(typed.ty.span(), sentence));
            }
            Some(typed)
        }
        FnArg::Receiver(receiver) => {
            let sentence =
                "a task is a free function, not a method: move it out, and share what `self` has as State<T>";
            mistakes.add(Error::new(receiver.span(), sentence));
            None
        }
    }
}

fn check_input(input: &Type, mistakes: &mut Mistakes) {
    if let Type::Reference(reference) = input {
        let sentence = "a task takes its input by value: it is read from the queue and belongs to the attempt";
        mistakes.add(Error::new(reference.span(), sentence));
    }
    if let Some(name) = last_name(input)
        && EXTRACTORS.iter().any(|extractor| name == extractor)
    {
        let sentence =
            format!("the first parameter is the task's input, and {name} is an extractor; take `_: ()` first");
        mistakes.add(Error::new(input.span(), sentence));
    }
}

/// The last word of a path.
fn last_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

fn returns(function: &ItemFn) -> (Type, Kind) {
    let ty = match &function.sig.output {
        ReturnType::Default => syn::parse_quote!(()),
        ReturnType::Type(_, ty) => (**ty).clone(),
    };
    match future_output(&ty) {
        _ if function.sig.asyncness.is_some() => (ty, Kind::Async),
        Some(output) => (output, Kind::Async),
        None => (ty, Kind::Blocking),
    }
}

/// `T` of `impl Future<Output = T>`.
fn future_output(ty: &Type) -> Option<Type> {
    let Type::ImplTrait(imp) = ty else { return None };
    imp.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let segment = bound.path.segments.last().filter(|segment| segment.ident == "Future")?;
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(assoc.ty.clone()),
            _ => None,
        })
    })
}
