//! Events: how they are recorded, and what a publisher gets.

use std::fmt;

use aedb_queue::{Effects, Json, Result, Timestamp};
use serde::Serialize;

use super::keys::{TopicKeys, checked};

/// The effect that records an event of a topic, in order with the others of its key.
///
/// Give it to whatever commits the change it tells of: an enqueue, a completion, a guarded commit, or a commit of keys.
///
/// # Errors
///
/// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) if the topic or the key does not have 1 to 255 bytes without control characters, or the payload
/// cannot be written as JSON.
pub fn event<T: Serialize + ?Sized>(topic: &str, key: &str, payload: &T) -> Result<Effects> {
    let keys = TopicKeys::new(topic)?;
    checked("an event's key", key)?;
    Ok(Effects::new().append(keys.events(key), Json::of(payload)?.as_str()))
}

/// An event on its way.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The same at every delivery, and of no other event: for the receiver to tell what it has seen.
    pub id: EventId,
    /// Its topic.
    pub topic: String,
    /// Its key: events of one key come in order.
    pub key: String,
    /// What it tells.
    pub payload: Json,
    /// When it was recorded.
    pub at: Timestamp,
    /// Which delivery this is, as far as failures are known, from 1.
    pub attempt: u32,
}

/// The id of an event: its topic's number, which grows from commit to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub(crate) u64);

impl EventId {
    /// The number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
