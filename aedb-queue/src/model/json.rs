//! JSON as text: checked once at the door, stored and returned byte for byte.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::{Error, Result};
use crate::model::limits;

/// A JSON text. What went in comes out, to the byte, on every store.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// The JSON form of a value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the value cannot be written as JSON, for example a map whose keys are not texts, or nests
    /// deeper than 128.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let text = serde_json::to_string(value)
            .map_err(|e| Error::invalid("the value cannot be written as JSON").caused_by(e))?;
        check_depth(&text)?;
        Ok(Self(text.into()))
    }

    /// Takes a text that is already JSON.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is not JSON, or nests deeper than 128.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self> {
        let text = text.into();
        check_depth(&text)?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(|e| Error::invalid(format!("not JSON: {e}")).caused_by(e))?;
        Ok(Self(text))
    }

    /// The JSON text `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// A text that a checked record held.
    pub(crate) fn trusted(text: &str) -> Self {
        Self(text.into())
    }

    /// Reads the value back.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it does not have the form of `T`.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.0)
            .map_err(|e| Error::invalid(format!("the JSON does not fit the type: {e}")).caused_by(e))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Nesting is counted outside of strings, before any recursive parser sees the text.
fn check_depth(text: &str) -> Result<()> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                limits::at_most("JSON depth", limits::JSON_DEPTH - 1, depth)?;
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c50_escapes_are_kept_to_the_byte() {
        for text in [r#""\u0000""#, r#""\ud800""#, "\"🐓\u{202e}\"", "1e400"] {
            assert_eq!(Json::parse(text).map(|j| j.as_str().to_owned()).ok().as_deref(), Some(text));
        }
        assert!(Json::parse("\"\0\"").is_err());
        assert!(Json::parse("").is_err());
    }

    #[test]
    fn a_number_comes_back_to_the_last_bit() {
        for number in [2.5e-73, 0.1 + 0.2, f64::MIN_POSITIVE, f64::MAX, 1.0 / 3.0] {
            assert_eq!(Json::of(&number).unwrap().to::<f64>().unwrap().to_bits(), number.to_bits());
        }
        assert_eq!(Json::parse("2.5e-73").unwrap().to::<f64>().unwrap().to_bits(), 2.5e-73_f64.to_bits());
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion() {
        assert!(Json::parse("[".repeat(1_000_000)).is_err());
        assert!(Json::parse(format!("{}{}", "[".repeat(127), "]".repeat(127))).is_ok());
        assert!(Json::parse(format!("{}{}", "[".repeat(128), "]".repeat(128))).is_err());
        assert!(Json::parse(format!("\"{}\"", "[".repeat(500))).is_ok());
    }
}
