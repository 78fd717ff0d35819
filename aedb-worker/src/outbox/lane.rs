//! A lane: the events of some keys, published in order within each key by whoever holds the lane's lease.
//!
//! Reading, publishing and recording overlap: keys that are being published are left out of the next read, and whatever has come
//! back meanwhile is recorded in one commit, guarded by the lease. So one slow or hanging key holds up only itself.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aedb_queue::{Effects, ErrorKind, FencedCommit, HeldLease, Json, KeyRange, Lease, Result, Timestamp};
use futures_util::FutureExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::dispatch::Shared;
use super::event::{Event, EventId};
use super::stuck::Stuck;
use crate::error::TaskError;
use crate::events;
use crate::run::attempt::words;
use crate::run::pause::Pause;

/// The most events that one key gives at a time, so that a busy key leaves room for others.
const OF_ONE_KEY: usize = 64;
/// The most keys of one lane that are being published.
const KEYS: usize = 256;

/// A lane that this dispatcher holds.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) number: u16,
    pub(crate) lease: Lease,
    pub(crate) held: HeldLease,
    /// The lease is lost or given back: publish and record nothing more.
    pub(crate) over: CancellationToken,
}

/// Events of one key, in order.
struct Group {
    key: String,
    events: Vec<Event>,
}

/// What became of a group: so many were delivered, and then perhaps one failed.
struct Published {
    key: String,
    delivered: Vec<EventId>,
    failed: Option<(EventId, TaskError)>,
}

/// What a lane remembers between its steps.
struct Course {
    stuck: BTreeMap<String, Stuck>,
    in_flight: BTreeSet<String>,
    /// Where the next read begins, so that every key gets its turn.
    from: Option<Vec<u8>>,
    tell: UnboundedSender<Published>,
    told: UnboundedReceiver<Published>,
}

/// Serves a lane until it is over or, when draining, has nothing that is due: true if that was so.
pub(crate) async fn serve(shared: &Arc<Shared>, lane: &Arc<Lane>) -> bool {
    let (tell, told) = unbounded_channel();
    let mut course = Course { stuck: BTreeMap::new(), in_flight: BTreeSet::new(), from: None, tell, told };
    let mut pause = Pause::new();
    while !lane.over.is_cancelled() {
        let groups = match course.read(shared, lane).await {
            Ok(groups) => groups,
            Err(error) => {
                events::store_away("outbox read", pause.failed(), &error);
                sleep(pause.next()).await;
                continue;
            }
        };
        pause.reset();
        let started = groups.len();
        for group in groups {
            course.in_flight.insert(group.key.clone());
            publish(shared, lane, group, course.tell.clone());
        }
        if started == 0 && course.in_flight.is_empty() {
            if shared.drains() {
                return true;
            }
            tokio::select! {
                () = lane.over.cancelled() => return false,
                () = sleep(shared.parts.poll) => continue,
            }
        }
        let Some(results) = course.results(shared, lane).await else { return false };
        if !results.is_empty() {
            course.record(shared, lane, results).await;
        }
    }
    false
}

impl Course {
    /// The next events of keys that neither wait nor are being published.
    async fn read(&mut self, shared: &Shared, lane: &Lane) -> Result<Vec<Group>> {
        let room = KEYS.saturating_sub(self.in_flight.len());
        if room == 0 {
            return Ok(Vec::new());
        }
        self.stuck = read_stuck(shared, lane).await?;
        let (start, now) = (self.from.take(), shared.now());
        let mut groups = self.read_from(shared, lane, start.clone(), room, now).await?;
        if groups.is_empty() && start.is_some() {
            groups = self.read_from(shared, lane, None, room, now).await?;
        }
        Ok(groups)
    }

    async fn read_from(
        &mut self,
        shared: &Shared,
        lane: &Lane,
        start: Option<Vec<u8>>,
        room: usize,
        now: Timestamp,
    ) -> Result<Vec<Group>> {
        let (keys, mut groups, mut count) = (&shared.keys, Vec::<Group>::new(), 0);
        let mut after = start;
        'pages: loop {
            let mut range = KeyRange::prefix(keys.lane(lane.number)).limit(shared.parts.batch);
            if let Some(after) = &after {
                range = range.after(after.clone());
            }
            let page = shared.kv.scan(range).await?;
            let Some((last, _)) = page.last() else { return Ok(groups) };
            after = Some(last.clone());
            for (bytes, value) in page {
                // Only our own keys have this prefix.
                let Some((key, number)) = keys.read_event(&bytes) else { continue };
                let stuck = self.stuck.get(&key).filter(|stuck| stuck.event == number);
                let full = groups.last().is_some_and(|group| group.key == key && group.events.len() >= OF_ONE_KEY);
                if full || self.in_flight.contains(&key) || stuck.is_some_and(|stuck| stuck.waits(now)) {
                    after = Some(keys.behind(&key));
                    continue 'pages;
                }
                if groups.last().is_none_or(|group| group.key != key) {
                    if count >= shared.parts.batch || groups.len() >= room {
                        self.from = groups.last().map(|group| keys.behind(&group.key));
                        return Ok(groups);
                    }
                    groups.push(Group { key: key.clone(), events: Vec::new() });
                }
                let attempt = stuck.map_or(1, |stuck| stuck.attempts + 1);
                let (topic, at) = (keys.topic().to_owned(), Timestamp::from_micros(number));
                let text = String::from_utf8_lossy(&value).into_owned();
                let payload = Json::parse(text.as_str()).or_else(|_| Json::of(&text))?;
                if let Some(group) = groups.last_mut() {
                    group.events.push(Event { id: EventId(number), topic, key, payload, at, attempt });
                    count += 1;
                }
            }
        }
    }

    /// Waits for the first result and takes those that came with it; none if all are slow, because other keys may have become due
    /// meanwhile. `None` if the lane is over.
    async fn results(&mut self, shared: &Shared, lane: &Lane) -> Option<Vec<Published>> {
        let first = tokio::select! {
            () = lane.over.cancelled() => return None,
            first = self.told.recv() => first?,
            () = sleep(shared.parts.poll) => return Some(Vec::new()),
        };
        let mut results = vec![first];
        while let Ok(more) = self.told.try_recv() {
            results.push(more);
        }
        Some(results)
    }

    /// Records what was delivered and what failed, under the lease, until there is an answer.
    async fn record(&mut self, shared: &Shared, lane: &Lane, results: Vec<Published>) {
        let (keys, now) = (&shared.keys, shared.now());
        let (mut effects, mut count) = (Effects::new(), 0);
        for result in &results {
            self.in_flight.remove(&result.key);
            let known = self.stuck.get(&result.key);
            for id in &result.delivered {
                effects = effects.delete([keys.events(&result.key).as_slice(), &id.0.to_be_bytes()].concat());
                if !shared.parts.keep.is_zero() {
                    let until = now.saturating_add(shared.parts.keep).as_micros();
                    effects = effects.put(keys.delivered(until, id.0), result.key.as_bytes());
                }
                count += 1;
            }
            match &result.failed {
                Some((id, error)) => {
                    let stuck = Stuck::after(known, id.0, error, &shared.parts.budget, now);
                    events::undelivered(keys.topic(), &result.key, *id, &stuck.error, stuck.again.is_none());
                    if let Ok(value) = stuck.write() {
                        effects = effects.put(keys.stuck(&result.key), value);
                    }
                }
                None if known.is_some() => effects = effects.delete(keys.stuck(&result.key)),
                None => {}
            }
        }
        if commit(shared, lane, effects).await {
            shared.delivered(count, now, results.iter().filter_map(|result| result.delivered.first()).min());
        }
    }
}

/// Commits under the lease; false, and the lane is over, if the lease is lost. A store that is away is asked again.
async fn commit(shared: &Shared, lane: &Lane, effects: Effects) -> bool {
    let mut pause = Pause::new();
    loop {
        match lane.lease.guarded_commit(&lane.held, effects.clone()).await {
            Ok(FencedCommit::Applied) => return true,
            Ok(FencedCommit::LeaseLost(_)) => {
                events::lane_lost(shared.keys.topic(), lane.number);
                lane.over.cancel();
                return false;
            }
            Err(error) => events::store_away("outbox commit", pause.failed(), &error),
        }
        tokio::select! {
            () = lane.over.cancelled() => return false,
            () = sleep(pause.next()) => {}
        }
    }
}

async fn read_stuck(shared: &Shared, lane: &Lane) -> Result<BTreeMap<String, Stuck>> {
    let (mut stuck, mut range) = (BTreeMap::new(), KeyRange::prefix(shared.keys.stuck_in(lane.number)));
    loop {
        let page = shared.kv.scan(range.clone()).await?;
        let Some((last, _)) = page.last() else { return Ok(stuck) };
        range = range.after(last.clone());
        for (key, value) in &page {
            if let Some(key) = shared.keys.read_stuck(key) {
                match Stuck::read(value) {
                    Ok(known) => drop(stuck.insert(key, known)),
                    // Its events are published again: better twice than never.
                    Err(error) if error.kind() == ErrorKind::Corrupt => events::store_away("outbox read", 1, &error),
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// Publishes the events of one key, one after the other, on the application's runtime.
fn publish(shared: &Arc<Shared>, lane: &Arc<Lane>, group: Group, tell: UnboundedSender<Published>) {
    let (shared, lane) = (Arc::clone(shared), Arc::clone(lane));
    let runtime = shared.publishers.clone();
    runtime.spawn(async move {
        let mut published = Published { key: group.key, delivered: Vec::new(), failed: None };
        let Ok(_turn) = shared.turns.acquire().await else { return };
        for event in group.events {
            let id = event.id;
            let sent = tokio::select! {
                biased;
                () = lane.over.cancelled() => return,
                sent = publish_one(&shared, event) => sent,
            };
            match sent {
                Ok(()) => published.delivered.push(id),
                Err(error) => {
                    published.failed = Some((id, error));
                    break;
                }
            }
        }
        // Nobody listens to a lane that is over.
        let _ = tell.send(published);
    });
}

async fn publish_one(shared: &Shared, event: Event) -> Result<(), TaskError> {
    let limit = shared.parts.timeout;
    let publishing = AssertUnwindSafe(shared.parts.publisher.publish(event)).catch_unwind();
    match timeout(limit, publishing).await {
        Ok(Ok(sent)) => sent,
        Ok(Err(panic)) => Err(TaskError::new(format!("the publisher panicked: {}", words(&*panic)))),
        Err(_) => Err(TaskError::new(format!("the publisher did not answer within {limit:?}"))),
    }
}

/// Counts what a dispatcher has delivered.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, events: u64) {
        self.0.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
