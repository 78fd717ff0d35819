//! How often and when a task is tried again.

use std::time::Duration;

use proc_macro2::Span;
use syn::parse::ParseStream;
use syn::{Error, LitInt, LitStr, Result, Token, parenthesized};

use crate::duration;
use crate::options::{keyword, value};

/// `retry(max = 8, base = "2s", cap = "10m", jitter = 20)`
#[derive(Default)]
pub(crate) struct Retry {
    pub(crate) max: Option<LitInt>,
    pub(crate) base: Option<Duration>,
    pub(crate) cap: Option<Duration>,
    cap_at: Option<Span>,
    pub(crate) jitter: Option<LitInt>,
}

impl Retry {
    pub(crate) fn read(input: ParseStream<'_>) -> Result<Self> {
        let content;
        parenthesized!(content in input);
        let mut retry = Self::default();
        while !content.is_empty() {
            let option = keyword(&content)?;
            match option.to_string().as_str() {
                "max" => retry.max = Some(at_least_one(value(&content)?)?),
                "base" => retry.base = Some(duration::read(&value(&content)?)?),
                "cap" => {
                    let cap = value::<LitStr>(&content)?;
                    (retry.cap, retry.cap_at) = (Some(duration::read(&cap)?), Some(cap.span()));
                }
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

    /// What is wrong with the options together.
    pub(crate) fn check(&self) -> Result<()> {
        match (self.base, self.cap, self.cap_at) {
            (Some(base), Some(cap), Some(at)) if base > cap => {
                Err(Error::new(at, format!("the longest wait, {cap:?}, is shorter than the first, {base:?}")))
            }
            _ => Ok(()),
        }
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
