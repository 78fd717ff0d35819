//! Where an outbox lies among the application's keys.
//!
//! ```text
//! \x00outbox: e  len topic  lane  len key  number    an event, in the order of its key's commits; value: the payload
//!             s  len topic  lane  len key            a key that failed or is parked; value: how
//!             d  len topic  removal  number          a delivered event that is kept for a while
//! ```
//!
//! A key has one lane of `LANES`, by its hash. A lane is what a dispatcher holds a lease on.

use aedb_queue::{Error, Result};

/// Lanes of a topic. It is part of the layout: all programs of a database must agree on it.
pub(crate) const LANES: u16 = 32;
/// The longest topic, and the longest key, in bytes.
pub(crate) const LONGEST: usize = 255;

const PREFIX: &[u8] = b"\x00outbox:";

/// The keys of one topic.
#[derive(Debug, Clone)]
pub(crate) struct TopicKeys {
    topic: String,
}

impl TopicKeys {
    pub(crate) fn new(topic: &str) -> Result<Self> {
        checked("a topic", topic)?;
        Ok(Self { topic: topic.to_owned() })
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    fn kind(&self, kind: u8) -> Vec<u8> {
        let mut bytes = PREFIX.to_vec();
        bytes.push(kind);
        sized(&mut bytes, &self.topic);
        bytes
    }

    /// All events of a lane.
    pub(crate) fn lane(&self, lane: u16) -> Vec<u8> {
        let mut bytes = self.kind(b'e');
        bytes.extend(lane.to_be_bytes());
        bytes
    }

    /// All events of a key; an event's own key is this and eight bytes.
    pub(crate) fn events(&self, key: &str) -> Vec<u8> {
        let mut bytes = self.lane(lane_of(key));
        sized(&mut bytes, key);
        bytes
    }

    /// Behind all events of a key.
    pub(crate) fn behind(&self, key: &str) -> Vec<u8> {
        let mut bytes = self.events(key);
        bytes.extend([u8::MAX; 9]);
        bytes
    }

    /// All keys of a lane that failed.
    pub(crate) fn stuck_in(&self, lane: u16) -> Vec<u8> {
        let mut bytes = self.kind(b's');
        bytes.extend(lane.to_be_bytes());
        bytes
    }

    /// What is known of a key that failed.
    pub(crate) fn stuck(&self, key: &str) -> Vec<u8> {
        let mut bytes = self.stuck_in(lane_of(key));
        sized(&mut bytes, key);
        bytes
    }

    /// All keys of the topic that failed.
    pub(crate) fn all_stuck(&self) -> Vec<u8> {
        self.kind(b's')
    }

    /// All events of the topic.
    pub(crate) fn all_events(&self) -> Vec<u8> {
        self.kind(b'e')
    }

    /// All delivered events that are kept.
    pub(crate) fn all_delivered(&self) -> Vec<u8> {
        self.kind(b'd')
    }

    /// A delivered event that is kept until an instant.
    pub(crate) fn delivered(&self, until: u64, number: u64) -> Vec<u8> {
        let mut bytes = self.all_delivered();
        bytes.extend(until.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes
    }

    /// The application's key and the number in an event's own key.
    pub(crate) fn read_event(&self, bytes: &[u8]) -> Option<(String, u64)> {
        let (key, number) = self.read_key(b'e', bytes)?;
        Some((key, u64::from_be_bytes(*number.first_chunk()?)))
    }

    /// The application's key in that of a stuck one.
    pub(crate) fn read_stuck(&self, bytes: &[u8]) -> Option<String> {
        self.read_key(b's', bytes).map(|(key, _)| key)
    }

    fn read_key<'a>(&self, kind: u8, bytes: &'a [u8]) -> Option<(String, &'a [u8])> {
        let rest = bytes.strip_prefix(self.kind(kind).as_slice())?.get(size_of::<u16>()..)?;
        let (length, rest) = rest.split_first()?;
        let (key, rest) = rest.split_at_checked(usize::from(*length))?;
        Some((String::from_utf8(key.to_vec()).ok()?, rest))
    }

    /// When a kept event may be removed.
    pub(crate) fn read_delivered(&self, bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(*bytes.strip_prefix(self.all_delivered().as_slice())?.first_chunk()?))
    }
}

/// A name and its length, so that no name is the beginning of another.
fn sized(bytes: &mut Vec<u8>, name: &str) {
    bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    bytes.extend(name.as_bytes());
}

/// The lane of a key: FNV-1a, which does not change with releases of anything.
pub(crate) fn lane_of(key: &str) -> u16 {
    let hash = key
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    u16::try_from(hash % u64::from(LANES)).unwrap_or(0)
}

pub(crate) fn checked(what: &str, name: &str) -> Result<()> {
    if (1..=LONGEST).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let length = name.len();
    Err(Error::invalid(format!(
        "{what} has 1 to {LONGEST} bytes and no control characters; this one has {length} bytes"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back_and_none_is_the_beginning_of_another() {
        let keys = TopicKeys::new("orders").unwrap();
        for key in ["a", "ab", "order:7", "ключ", &"x".repeat(255)] {
            let event = [keys.events(key).as_slice(), &7_u64.to_be_bytes()].concat();
            assert_eq!(keys.read_event(&event), Some((key.to_owned(), 7)));
            assert_eq!(keys.read_stuck(&keys.stuck(key)).as_deref(), Some(key));
            assert!(event.starts_with(&keys.lane(lane_of(key))) && event < keys.behind(key));
        }
        assert!(!keys.events("ab").starts_with(&keys.events("a")));
        assert!(keys.read_event(b"\x00outbox:e").is_none() && keys.read_event(&keys.stuck("a")).is_none());
        assert_eq!(keys.read_delivered(&keys.delivered(9, 7)), Some(9));
    }

    #[test]
    fn lanes_never_change() {
        // The layout of every outbox that exists depends on these.
        assert_eq!(["", "a", "order:7", "order:8"].map(lane_of), [5, 12, 0, 29]);
    }

    #[test]
    fn names_have_bounds() {
        assert!(
            TopicKeys::new("").is_err() && TopicKeys::new(&"x".repeat(256)).is_err() && TopicKeys::new("a\0").is_err()
        );
    }
}
