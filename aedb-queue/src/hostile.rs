//! What reads bytes and texts, given anything: it must answer or refuse, never panic, and what it takes must come back as it was.
//!
//! Each function takes an input and panics if that does not hold. `tests/fuzz` looks for such inputs with libFuzzer; every `cargo
//! test` runs those that were found once (`tests/fuzz/regressions`) and many at random.

#![allow(clippy::unwrap_used, reason = "a target reports by panicking")]

use crate::kv;
use crate::model::json::Json;
use crate::model::task::TaskId;
use crate::store::Cursor;

/// A function that reads, by the name of its target.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 6] = [
    ("record", |bytes| kv::hostile::record(bytes)),
    ("lease", |bytes| kv::hostile::lease(bytes)),
    ("small_records", |bytes| kv::hostile::small_records(bytes)),
    ("keys", |bytes| kv::hostile::keys(bytes)),
    ("json", json),
    ("cursor", cursor),
];

/// Texts that say they are JSON.
fn json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(json) = Json::parse(text) {
        assert_eq!(json.as_str(), text);
        // JSON may have halves of characters, which no Rust text can hold: that is refused when it is read.
        if let Ok(value) = json.to::<serde_json::Value>() {
            assert_eq!(Json::of(&value).unwrap().to::<serde_json::Value>().unwrap(), value);
        }
    }
}

/// Texts that say they are cursors or ids.
fn cursor(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
    }
    if let Ok(id) = text.parse::<TaskId>() {
        assert_eq!(id.to_string().parse::<TaskId>().unwrap(), id);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Inputs to start from: what is good, and what is nearly so.
    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/regressions").join(target);
        let found = std::fs::read_dir(folder).unwrap();
        let mut seeds: Vec<_> = found.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        seeds.push(Vec::new());
        seeds.extend(match target {
            "record" => kv::hostile::records(),
            "json" => vec![br#"{"a":[1,2.5e-3,"\u0000\ud83d\ude00",null,true]}"#.to_vec(), vec![b'['; 400]],
            "cursor" => vec![b"00ff7f".to_vec(), b"18446744073709551615".to_vec()],
            _ => vec![vec![0; 40], vec![255; 40], b"\x00\x05queue".to_vec()],
        });
        seeds
    }

    /// A step of xorshift64.
    fn next(dice: &mut u64) -> usize {
        *dice ^= *dice << 13;
        *dice ^= *dice >> 7;
        *dice ^= *dice << 17;
        (*dice >> 20) as usize
    }

    #[test]
    fn nothing_that_is_read_makes_a_reader_panic_or_change_it() {
        let tries = std::env::var("AEDB_FUZZ").ok().and_then(|tries| tries.parse().ok()).unwrap_or(30_000);
        let mut dice = 0x2545_f491_4f6c_dd1d;
        for (name, reads) in TARGETS {
            let seeds = seeds(name);
            seeds.iter().for_each(|seed| reads(seed));
            for _ in 0..tries {
                let mut input = seeds[next(&mut dice) % seeds.len()].clone();
                for _ in 0..=next(&mut dice) % 4 {
                    let (at, byte) = (next(&mut dice) % (input.len() + 1), (next(&mut dice) % 256) as u8);
                    match next(&mut dice) % 4 {
                        0 => input.insert(at, byte),
                        1 if at < input.len() => drop(input.remove(at)),
                        2 if at < input.len() => input[at] = byte,
                        _ => input.truncate(at),
                    }
                }
                reads(&input);
            }
        }
    }
}
