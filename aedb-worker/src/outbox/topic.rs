//! A topic from outside: what is stuck, and how to let it go on.

use aedb_queue::{AppKeys, Effects, KeyRange, Result, Scope, Timestamp};

use super::event::EventId;
use super::keys::{TopicKeys, checked};
use super::stuck::Stuck;

/// A topic's outbox, for people and programs that look after it.
#[derive(Debug, Clone)]
pub struct Outbox {
    kv: AppKeys,
    keys: TopicKeys,
}

/// A key that is parked: its next event spent its budget, and those behind it wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parked {
    /// The key.
    pub key: String,
    /// The event that could not be delivered.
    pub event: EventId,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was tried last.
    pub at: Timestamp,
    /// Why it failed then.
    pub error: String,
}

impl Outbox {
    /// The outbox of a topic.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](aedb_queue::ErrorKind::Invalid) unless the topic has 1 to 255 bytes without control characters.
    pub fn new(scope: &Scope, topic: &str) -> Result<Self> {
        Ok(Self { kv: scope.kv(), keys: TopicKeys::new(topic)? })
    }

    /// The parked keys, by lane and key.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve, or a record is damaged.
    pub async fn parked(&self) -> Result<Vec<Parked>> {
        let (mut parked, mut range) = (Vec::new(), KeyRange::prefix(self.keys.all_stuck()));
        loop {
            let page = self.kv.scan(range.clone()).await?;
            let Some((last, _)) = page.last() else { return Ok(parked) };
            range = range.after(last.clone());
            for (key, value) in &page {
                let stuck = Stuck::read(value)?;
                if let (Some(key), None) = (self.keys.read_stuck(key), stuck.again) {
                    let (event, at) = (EventId(stuck.event), Timestamp::from_micros(stuck.at));
                    parked.push(Parked { key, event, attempts: stuck.attempts, at, error: stuck.error });
                }
            }
        }
    }

    /// Tries the next event of a parked or waiting key again, with a fresh budget. False if the key is neither.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`](aedb_queue::ErrorKind::Conflict) if it changed meanwhile: look again.
    pub async fn retry(&self, key: &str) -> Result<bool> {
        self.release(key, Effects::new()).await
    }

    /// Removes the next event of a parked or waiting key without delivering it, and lets those behind it go on. False if the key is
    /// neither.
    ///
    /// # Errors
    ///
    /// As [`Outbox::retry`].
    pub async fn skip(&self, key: &str) -> Result<bool> {
        let Some(stuck) = self.stuck(key).await? else { return Ok(false) };
        let event = [self.keys.events(key).as_slice(), &stuck.event.to_be_bytes()].concat();
        self.release(key, Effects::new().delete(event)).await
    }

    async fn stuck(&self, key: &str) -> Result<Option<Stuck>> {
        checked("an event's key", key)?;
        self.kv.get(self.keys.stuck(key)).await?.map(|value| Stuck::read(&value)).transpose()
    }

    async fn release(&self, key: &str, with: Effects) -> Result<bool> {
        let Some(stuck) = self.stuck(key).await? else { return Ok(false) };
        let at = self.keys.stuck(key);
        let effects = Effects::new().assert_value(at.clone(), stuck.write()?).delete(at).and(with);
        self.kv.commit(effects).await.map(|()| true)
    }

    /// How many events wait, counted up to a bound.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn waiting(&self, bound: usize) -> Result<usize> {
        let (mut count, mut range) = (0, KeyRange::prefix(self.keys.all_events()));
        while count < bound {
            let page = self.kv.scan(range.clone()).await?;
            let Some((last, _)) = page.last() else { break };
            range = range.after(last.clone());
            count += page.len();
        }
        Ok(count.min(bound))
    }
}
