//! The idempotency key that a task makes of its input.

use std::time::Duration;

use syn::parse::ParseStream;
use syn::{Error, Expr, Ident, Result, Token, parenthesized};

use crate::duration;
use crate::options::{keyword, value};

/// `unique(order, customer, window = "1h")` or `unique(key = format!("{}", input.order))`
pub(crate) struct Unique {
    pub(crate) fields: Vec<Ident>,
    pub(crate) key: Option<Expr>,
    pub(crate) window: Option<Duration>,
}

impl Unique {
    pub(crate) fn read(option: &Ident, input: ParseStream<'_>) -> Result<Self> {
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
