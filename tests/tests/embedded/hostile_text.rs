//! Texts that come from outside, mutated at random: parsing never panics, and what is accepted comes back as it was.
//!
//! `AEDB_FUZZ=1000000 cargo test -p aedb-tests --test embedded hostile_text` tries more; what once went wrong stays in the lists.

use aedb_queue::{ErrorKind, Json, NewTask, TaskId, limits};
use aedb_tests::{Dice, Shop};
use futures::executor::block_on;

const JSON: [&str; 14] = [
    "null",
    "[1,2.5e-3,\"a\\u0000b\\ud83d\\ude00\"]",
    "{\"a\":{\"b\":[true,false]},\"\":\"\"}",
    "\"\\ud800\"",
    "-0",
    "1e999",
    "[[[[[[[[]]]]]]]]",
    "\u{feff}1",
    " {\"a\" : 1 }\n",
    "\"\u{202e}\u{0}\"",
    "18446744073709551616",
    "{\"a\":1,\"a\":2}",
    "\"\\",
    "[",
];
const IDS: [&str; 6] = ["0", "18446744073709551615", "18446744073709551616", "-1", "+1", "１"];

fn tries() -> usize {
    std::env::var("AEDB_FUZZ").ok().and_then(|tries| tries.parse().ok()).unwrap_or(50_000)
}

/// A text from the list with a few bytes changed, doubled or cut.
fn mutated(dice: &mut Dice, from: &[&str]) -> String {
    let mut bytes = from[dice.below(from.len())].as_bytes().to_vec();
    for _ in 0..dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(4) {
            0 => bytes.insert(at, b"[]{}\",:\\0-.eu \x00\x1f\x7f\xc3"[dice.below(18)]),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
            _ => bytes.extend_from_within(at..),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn json_is_taken_or_refused_and_what_is_taken_comes_back_to_the_byte() {
    let (mut dice, shop, mut taken) = (Dice::new(7), Shop::new(), 0);
    for n in 0..tries() {
        let text = mutated(&mut dice, &JSON);
        match Json::parse(text.as_str()) {
            Ok(json) => {
                assert_eq!(json.as_str(), text);
                // Whatever it is, reading it as something else is an error and no panic.
                let _ =
                    (json.to::<u64>(), json.to::<Vec<String>>(), json.to::<std::collections::BTreeMap<String, f64>>());
                taken += 1;
                if n.is_multiple_of(50) {
                    let id = block_on(shop.queue.enqueue(NewTask::with_json("n", json))).unwrap().id;
                    assert_eq!(shop.record(id).payload.as_str(), text);
                }
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge)),
        }
    }
    assert!(taken > tries() / 20, "{taken} of {} were JSON", tries());
    let deep = format!("{}{}", "[".repeat(limits::JSON_DEPTH), "]".repeat(limits::JSON_DEPTH));
    assert_eq!(Json::parse(deep).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn ids_are_numbers_or_refused() {
    let mut dice = Dice::new(8);
    for _ in 0..tries() / 10 {
        let text = mutated(&mut dice, &IDS);
        match text.parse::<TaskId>() {
            Ok(id) => assert_eq!(id.to_string().parse::<TaskId>().unwrap(), id),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid),
        }
    }
}

#[test]
fn names_of_any_kind_are_kept_apart_or_refused() {
    let (mut dice, shop) = (Dice::new(9), Shop::new());
    let names = ["a", "a:b", "\u{0}aedb:queue:", "r", "p\u{0}", "ключ", "\u{202e}x", "a\nb", "<script>", "\u{10ffff}"];
    let mut made = std::collections::BTreeMap::new();
    for n in 0..tries() / 100 {
        let name = mutated(&mut dice, &names);
        let Ok(queue) = shop.db.queue(&name) else { continue };
        let Ok(outcome) = block_on(queue.enqueue(NewTask::new(name.as_str(), &n).unwrap())) else { continue };
        made.entry(name).or_insert_with(Vec::new).push(outcome.id);
    }
    assert!(made.len() > 50, "{} names", made.len());
    for (name, ids) in made {
        let queue = shop.db.queue(&name).unwrap();
        assert_eq!(block_on(queue.stats()).unwrap().ready, ids.len() as u64, "{name:?}");
        assert!(block_on(queue.check()).unwrap().is_clean(), "{name:?}");
    }
}
