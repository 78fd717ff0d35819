//! What stands in the attribute's parentheses.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Ident, LitInt, LitStr, Path, Result, Token, parenthesized};

use crate::duration;
use crate::mistakes::Mistakes;
use crate::retry::Retry;
use crate::unique::Unique;

/// The options, in the order in which they are listed when one is not known.
const KNOWN: [&str; 13] = [
    "name",
    "queue",
    "retry",
    "timeout",
    "lease",
    "priority",
    "unique",
    "follow_ups",
    "retention",
    "version",
    "upgrade",
    "alias",
    "crate",
];

/// The functions that the type of a task has, beside one for each follow-up.
const OWN_FUNCTIONS: [&str; 4] = ["with", "enqueue", "enqueue_all", "enqueue_and_wait"];

/// The longest name that the queue takes.
const NAME_BYTES: usize = 255;

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) retry: Retry,
    pub(crate) timeout: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) priority: Option<LitInt>,
    pub(crate) unique: Option<Unique>,
    pub(crate) follow_ups: Vec<Path>,
    pub(crate) retention: Option<Duration>,
    pub(crate) version: Option<LitInt>,
    pub(crate) upgrade: Option<Path>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) krate: Option<Path>,
}

impl Options {
    /// Everything that can be read, and everything that is wrong.
    pub(crate) fn read_all(tokens: TokenStream) -> (Self, Mistakes) {
        let (mut options, mut mistakes) = (Self::default(), Mistakes::default());
        let parsed = |input: ParseStream<'_>| {
            if let Err(error) = options.read_list(input, &mut mistakes) {
                mistakes.add(error);
                input.step(|rest| Ok(((), skipped(*rest))))?;
            }
            Ok(())
        };
        // A bracket that is not closed never comes here: the compiler tells of it.
        let read = parsed.parse2(tokens);
        mistakes.take(read);
        options.check_together(&mut mistakes);
        (options, mistakes)
    }

    fn read_list(&mut self, input: ParseStream<'_>, mistakes: &mut Mistakes) -> Result<()> {
        let mut seen = Vec::new();
        while !input.is_empty() {
            let option = keyword(input)?;
            if seen.contains(&option) {
                mistakes.add(Error::new(option.span(), format!("`{option}` is given twice")));
            }
            if let Err(error) = self.read(&option, input) {
                mistakes.add(error);
                skip_to_comma(input);
            }
            seen.push(option);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    fn check_together(&mut self, mistakes: &mut Mistakes) {
        if let (Some(upgrade), None) = (&self.upgrade, &self.version) {
            let sentence = "`upgrade` needs `version`: the number of today's form of the input";
            mistakes.add(Error::new(upgrade.span(), sentence));
        }
        mistakes.take(self.retry.check());
        let mut taken: Vec<String> = OWN_FUNCTIONS.map(str::to_owned).into();
        self.follow_ups.retain(|path| {
            let Some(last) = path.segments.last() else { return true };
            let (name, free) = (last.ident.to_string(), !taken.contains(&last.ident.to_string()));
            if !free {
                let sentence = format!(
                    "a function `{name}` is there already: import the task by another name, with `use .. as ..`"
                );
                mistakes.add(Error::new(path.span(), sentence));
            }
            taken.push(name);
            free
        });
    }
}

/// The end of what is left to read.
fn skipped(mut rest: syn::buffer::Cursor<'_>) -> syn::buffer::Cursor<'_> {
    while let Some((_, next)) = rest.token_tree() {
        rest = next;
    }
    rest
}

impl Options {
    fn read(&mut self, option: &Ident, input: ParseStream<'_>) -> Result<()> {
        match option.to_string().as_str() {
            "name" => self.name = Some(name(value(input)?)?),
            "queue" => self.queue = Some(name(value(input)?)?),
            "retry" => self.retry = Retry::read(input)?,
            "timeout" => {
                let sentence = "no attempt could even begin; leave the option out for no limit";
                self.timeout = Some(span(value(input)?, Duration::from_millis(1), None, sentence)?);
            }
            "lease" => {
                let sentence = "a lease must hold three heartbeats and end some day: 1s to 24h";
                let most = Some(Duration::from_secs(24 * 3600));
                self.lease = Some(span(value(input)?, Duration::from_secs(1), most, sentence)?);
            }
            "priority" => self.priority = Some(number::<u64>(value(input)?)?),
            "unique" => self.unique = Some(Unique::read(option, input)?),
            "follow_ups" => self.follow_ups = list::<Path>(input)?,
            "retention" => self.retention = Some(duration::read(&value(input)?)?),
            "version" => {
                let written = value::<LitInt>(input)?;
                self.version = Some(LitInt::new("1", written.span())); // so that nothing else is missing
                if number::<u32>(written.clone())?.base10_parse::<u32>()? == 0 {
                    return Err(Error::new(written.span(), "versions count from 1, the form that had no number yet"));
                }
                self.version = Some(written);
            }
            "upgrade" => self.upgrade = Some(value(input)?),
            "alias" => self.aliases = list::<LitStr>(input)?.into_iter().map(name).collect::<Result<_>>()?,
            "crate" => self.krate = Some(value(input)?),
            unknown => return Err(Error::new(option.span(), unknown_option(unknown))),
        }
        Ok(())
    }
}

fn unknown_option(unknown: &str) -> String {
    format!("unknown option `{unknown}`; there are {}", KNOWN.join(", "))
}

/// A word, also one that the language keeps for itself, such as `crate`.
pub(crate) fn keyword(input: ParseStream<'_>) -> Result<Ident> {
    Ident::parse_any(input)
        .map_err(|error| Error::new(error.span(), format!("expected an option: {}", KNOWN.join(", "))))
}

/// `= value`
pub(crate) fn value<T: Parse>(input: ParseStream<'_>) -> Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

/// `(value, value)`
fn list<T: Parse>(input: ParseStream<'_>) -> Result<Vec<T>> {
    let content;
    parenthesized!(content in input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        let _ = input.parse::<proc_macro2::TokenTree>();
    }
}

fn name(text: LitStr) -> Result<LitStr> {
    let name = text.value();
    if (1..=NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(text);
    }
    Err(Error::new(text.span(), format!("a name has 1 to {NAME_BYTES} bytes and no control characters")))
}

fn span(text: LitStr, least: Duration, most: Option<Duration>, otherwise: &str) -> Result<Duration> {
    let span = duration::read(&text)?;
    if span < least || most.is_some_and(|most| span > most) {
        return Err(Error::new(text.span(), format!("`{}`: {otherwise}", text.value())));
    }
    Ok(span)
}

/// A whole number that fits its type, kept as it was written.
fn number<N: std::str::FromStr<Err: std::fmt::Display>>(number: LitInt) -> Result<LitInt> {
    number.base10_parse::<N>().map(|_| number)
}

impl Options {
    /// The task's name: the function's, unless there is another.
    pub(crate) fn name_of(&self, function: &Ident) -> LitStr {
        let own = || LitStr::new(&function.unraw().to_string(), function.span());
        self.name.clone().unwrap_or_else(own)
    }

    /// The task's queue.
    pub(crate) fn queue_name(&self) -> String {
        self.queue.as_ref().map_or_else(|| "default".to_owned(), LitStr::value)
    }

    /// The path of `aedb_worker`, under whatever name it was added.
    pub(crate) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| syn::parse_quote_spanned!(Span::call_site()=> ::aedb_worker))
    }
}
