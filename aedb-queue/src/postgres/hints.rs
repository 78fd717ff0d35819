//! Hints that something may have become ready: looking again is the truth, a hint only makes it soon.
//!
//! In the process a commit wakes who waits. Other processes hear of it by `NOTIFY` in a transaction of its own, at most once
//! per queue and [`QUIET`], whose payload has the same size whatever was enqueued.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::clock::monotonic;
use super::fault::Fault;
use super::pool::Verb;
use super::{Inner, PgStore};
use crate::store::Place;

/// How long a process is quiet about a queue that it has told others about.
const QUIET: Duration = Duration::from_millis(20);

/// What somebody may wait for: that tasks of a queue become ready, or finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Topic(u64);

impl Topic {
    pub(super) fn ready(at: &Place, queue: &str) -> Self {
        Self(hash(at, queue) & !1)
    }

    pub(super) fn finished(at: &Place, queue: &str) -> Self {
        Self(hash(at, queue) | 1)
    }

    fn crosses_processes(self) -> bool {
        self.0 & 1 == 0
    }
}

/// FNV-1a: the same number in every process, and two queues of one number only wake each other.
fn hash(at: &Place, queue: &str) -> u64 {
    let text = [&*at.project, &*at.scope, queue].join("\0");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[derive(Debug, Default)]
pub(super) struct Hints {
    topics: Mutex<HashMap<Topic, watch::Sender<()>>>,
    untold: Mutex<BTreeSet<Topic>>,
    tell: Notify,
    reclaimed: Mutex<HashMap<i32, Instant>>,
    floors: Mutex<HashMap<(i32, Names), Floor>>,
    listens: AtomicBool,
    marks: AtomicU16,
}

/// The names that a claim asks for.
pub(super) type Names = Option<BTreeSet<Arc<str>>>;

/// The place in line up to which claims of this process have taken everything, and since when nobody looked before it.
#[derive(Debug, Clone, Copy)]
struct Floor {
    place: (i64, i64),
    since: Instant,
}

/// How long claims may go without looking at what lies before their floor: late commits, and what other processes gave back.
const BLIND: Duration = Duration::from_secs(1);

impl Hints {
    fn floors(&self) -> MutexGuard<'_, HashMap<(i32, Names), Floor>> {
        self.floors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tells a claim from the others of its owner.
    pub(super) fn next_mark(&self) -> i16 {
        self.marks.fetch_add(1, Ordering::Relaxed).cast_signed()
    }

    /// The place in line that a claim may begin behind.
    pub(super) fn floor(&self, queue: i32, names: &Names) -> Option<(i64, i64)> {
        let floor = self.floors().get(&(queue, names.clone())).copied()?;
        (monotonic().duration_since(floor.since) < BLIND).then_some(floor.place)
    }

    /// A claim from a floor on, or of the whole line, got as much as it wanted, up to a place; or less, and then there is no floor.
    pub(super) fn set_floor(&self, queue: i32, names: &Names, from: Option<(i64, i64)>, to: Option<(i64, i64)>) {
        let (mut floors, key) = (self.floors(), (queue, names.clone()));
        match (to, from.and_then(|_| floors.get(&key).copied())) {
            // One that was forgotten while the claim was under way stays so.
            (Some(_), None) if from.is_some() => {}
            (Some(place), Some(known)) => drop(floors.insert(key, Floor { place, ..known })),
            (Some(place), None) => drop(floors.insert(key, Floor { place, since: monotonic() })),
            (None, _) => drop(floors.remove(&key)),
        }
    }

    /// Something may have got back into its old place in line.
    pub(super) fn forget_floors(&self) {
        self.floors().clear();
    }

    /// What will wake whoever waits for a topic from now on.
    pub(super) fn of(&self, topic: Topic) -> watch::Receiver<()> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.retain(|_, sender| sender.receiver_count() > 0);
        topics.entry(topic).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Wakes who waits in this process, and soon those in others.
    pub(super) fn give(&self, topics: Vec<Topic>) {
        if topics.is_empty() {
            return;
        }
        topics.iter().for_each(|topic| self.wake(*topic));
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.extend(topics.into_iter().filter(|topic| topic.crosses_processes()));
        if !untold.is_empty() {
            self.tell.notify_one();
        }
    }

    fn wake(&self, topic: Topic) {
        if let Some(sender) = self.topics.lock().unwrap_or_else(PoisonError::into_inner).get(&topic) {
            sender.send_replace(());
        }
    }

    /// Wakes everybody: the clock was moved, or hints may have been lost.
    pub(super) fn wake_all(&self) {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.values().for_each(|sender| {
            sender.send_replace(());
        });
    }

    /// Whether a claim of the queue should look for leases that ran out: once in a while is enough.
    pub(super) fn is_time_to_reclaim(&self, queue: i32, every: Duration) -> bool {
        let (mut reclaimed, now) = (self.reclaimed.lock().unwrap_or_else(PoisonError::into_inner), monotonic());
        let due = reclaimed.get(&queue).is_none_or(|last| now.duration_since(*last) >= every);
        if due {
            reclaimed.insert(queue, now);
        }
        due
    }
}

impl PgStore {
    /// Tells other processes, on the leading and on the trailing edge.
    pub(super) fn start_telling(&self) {
        let inner = Arc::downgrade(&self.0);
        self.0.runtime.spawn(async move {
            loop {
                let Some(told) = next_untold(&inner).await else { return };
                let Some(store) = inner.upgrade().map(PgStore) else { return };
                let payloads: Vec<String> = told.iter().map(|topic| format!("{:016x}", topic.0)).collect();
                // A hint that is lost costs a waiting claim one poll.
                drop(store.by_operator(&Tell(payloads)).await);
                drop(store);
                tokio::time::sleep(QUIET).await;
            }
        });
    }

    /// Listens for the hints of other processes, from the first waiting claim on.
    pub(super) fn listen(&self) {
        let Some(options) = self.0.listens_by.clone() else { return };
        if !self.0.hints.listens.swap(true, Ordering::Relaxed) {
            let (inner, channel) = (Arc::downgrade(&self.0), self.channel());
            self.0.runtime.spawn(async move {
                let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
                while inner.strong_count() > 0 {
                    if let Ok(mut listener) = PgListener::connect_with(&pool).await
                        && listener.listen(&channel).await.is_ok()
                    {
                        hear(&mut listener, &inner).await;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
    }

    fn channel(&self) -> String {
        format!("{}_ready", self.0.schema)
    }
}

/// What other processes are told: numbers of one size.
struct Tell(Vec<String>);

impl Verb for Tell {
    type Answer = ();

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<(), Fault> {
        let text = "select pg_notify($1, payload) from unnest($2) as u(payload)";
        sqlx::query(text).bind(store.channel()).bind(&self.0).execute(conn).await?;
        Ok(())
    }
}

async fn next_untold(inner: &Weak<Inner>) -> Option<BTreeSet<Topic>> {
    loop {
        let store = inner.upgrade()?;
        let untold = std::mem::take(&mut *store.hints.untold.lock().unwrap_or_else(PoisonError::into_inner));
        if !untold.is_empty() {
            return Some(untold);
        }
        // Not forever, so that the last handle can go.
        let _ = tokio::time::timeout(Duration::from_millis(200), store.hints.tell.notified()).await;
    }
}

async fn hear(listener: &mut PgListener, inner: &Weak<Inner>) {
    while let Some(store) = inner.upgrade() {
        match tokio::time::timeout(Duration::from_secs(1), listener.try_recv()).await {
            Err(_silence) => {}
            Ok(Ok(Some(hint))) => {
                if let Ok(topic) = u64::from_str_radix(hint.payload(), 16) {
                    store.hints.wake(Topic(topic));
                }
            }
            // The connection was lost, and with it perhaps hints.
            Ok(_) => return store.hints.wake_all(),
        }
    }
}
