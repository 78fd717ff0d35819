//! What stands in the attribute's parentheses.

use std::time::Duration;

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, parenthesized};

use crate::duration;
use crate::mistakes::Mistakes;

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

/// `retry(max = 8, base = "2s", cap = "10m", jitter = 20)`
#[derive(Default)]
pub(crate) struct Retry {
    pub(crate) max: Option<LitInt>,
    pub(crate) base: Option<Duration>,
    pub(crate) cap: Option<Duration>,
    pub(crate) jitter: Option<LitInt>,
}

/// `unique(order, customer, window = "1h")` or `unique(key = format!("{}", input.order))`
pub(crate) struct Unique {
    pub(crate) fields: Vec<Ident>,
    pub(crate) key: Option<Expr>,
    pub(crate) window: Option<Duration>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let (mut options, mut mistakes, mut seen) = (Self::default(), Mistakes::default(), Vec::new());
        while !input.is_empty() {
            let option = keyword(input)?;
            if seen.contains(&option) {
                mistakes.add(Error::new(option.span(), format!("`{option}` is given twice")));
            }
            // Without its meaning the rest of an option cannot be read, so this mistake is the last that can be told.
            if let Err(error) = options.read(&option, input) {
                mistakes.add(error);
                skip_to_comma(input);
            }
            seen.push(option);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if let (Some(upgrade), None) = (&options.upgrade, &options.version) {
            mistakes
                .add(Error::new(upgrade.span(), "`upgrade` needs `version`: the number of today's form of the input"));
        }
        mistakes.finish(options)
    }
}

impl Options {
    fn read(&mut self, option: &Ident, input: ParseStream<'_>) -> Result<()> {
        match option.to_string().as_str() {
            "name" => self.name = Some(name(value(input)?)?),
            "queue" => self.queue = Some(name(value(input)?)?),
            "retry" => self.retry = Retry::read(input)?,
            "timeout" => self.timeout = Some(span(value(input)?, Duration::from_millis(1), None, "a timeout of zero")?),
            "lease" => {
                let sentence = "a lease must hold three heartbeats and end some day: 1s to 24h";
                let most = Some(Duration::from_secs(24 * 3600));
                self.lease = Some(span(value(input)?, Duration::from_secs(1), most, sentence)?);
            }
            "priority" => self.priority = Some(number::<u64>(value(input)?)?),
            "unique" => self.unique = Some(Unique::read(option, input)?),
            "follow_ups" => self.follow_ups = list::<Path>(input)?,
            "retention" => self.retention = Some(duration::read(&value(input)?)?),
            "version" => self.version = Some(number::<u32>(value(input)?)?),
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
fn keyword(input: ParseStream<'_>) -> Result<Ident> {
    use syn::ext::IdentExt;
    Ident::parse_any(input)
        .map_err(|error| Error::new(error.span(), format!("expected an option: {}", KNOWN.join(", "))))
}

/// `= value`
fn value<T: Parse>(input: ParseStream<'_>) -> Result<T> {
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

impl Retry {
    fn read(input: ParseStream<'_>) -> Result<Self> {
        let content;
        parenthesized!(content in input);
        let mut retry = Self::default();
        while !content.is_empty() {
            let option = keyword(&content)?;
            match option.to_string().as_str() {
                "max" => retry.max = Some(at_least_one(value(&content)?)?),
                "base" => retry.base = Some(duration::read(&value(&content)?)?),
                "cap" => retry.cap = Some(duration::read(&value(&content)?)?),
                "jitter" => retry.jitter = Some(percent(value(&content)?)?),
                unknown => {
                    let sentence = format!("unknown option `{unknown}` of retry; there are max, base, cap, jitter");
                    return Err(Error::new(option.span(), sentence));
                }
            }
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        Ok(retry)
    }
}

fn at_least_one(number: LitInt) -> Result<LitInt> {
    if number.base10_parse::<u32>()? == 0 {
        return Err(Error::new(number.span(), "the first attempt counts: at least 1"));
    }
    Ok(number)
}

fn percent(number: LitInt) -> Result<LitInt> {
    if number.base10_parse::<u8>()? > 100 {
        return Err(Error::new(number.span(), "jitter is a share of the wait: 0 to 100 percent"));
    }
    Ok(number)
}

impl Unique {
    fn read(option: &Ident, input: ParseStream<'_>) -> Result<Self> {
        let content;
        parenthesized!(content in input);
        let mut unique = Self { fields: Vec::new(), key: None, window: None };
        while !content.is_empty() {
            let word = keyword(&content)?;
            match word.to_string().as_str() {
                "window" if content.peek(Token![=]) => unique.window = Some(duration::read(&value(&content)?)?),
                "key" if content.peek(Token![=]) => unique.key = Some(value(&content)?),
                _ => unique.fields.push(word),
            }
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        if unique.fields.is_empty() == unique.key.is_none() {
            let sentence =
                "unique takes fields of the input, as in unique(order), or unique(key = expression of input)";
            return Err(Error::new(option.span(), sentence));
        }
        Ok(unique)
    }
}

impl Options {
    /// The path of `aedb_worker`, under whatever name it was added.
    pub(crate) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| syn::parse_quote_spanned!(Span::call_site()=> ::aedb_worker))
    }
}
