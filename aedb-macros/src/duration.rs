//! Spans of time as text: `"30s"`, `"1h30m"`, `"250ms"`.

use std::time::Duration;

use syn::{Error, LitStr, Result};

/// The units, and their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a span.
pub(crate) fn read(text: &LitStr) -> Result<Duration> {
    parse(&text.value()).ok_or_else(|| {
        let sentence = "write a number and a unit (ms, s, m, h, d), as in \"30s\" or \"1h30m\"";
        Error::new(text.span(), format!("`{}` is no span of time: {sentence}", text.value()))
    })
}

fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut millis) = (text, 0_u64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
        millis = millis.checked_add(number.parse::<u64>().ok()?.checked_mul(*length)?)?;
        rest = behind;
    }
    Some(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_numbers_with_units() {
        for (text, millis) in [("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("0s", 0)] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "30", "s", "30 s", "-1s", "1.5s", "1x", "99999999999999999999s", "18446744073709551615d", "é"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
