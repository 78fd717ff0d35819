//! A running dispatcher: it keeps its place, its leases and its lanes, on a thread of its own; publishers run on the application's runtime.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use aedb_queue::{AppKeys, Effects, KeyRange, Result, Scope, Timestamp};
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::event::EventId;
use super::keys::TopicKeys;
use super::lane::{self, Count, Lane};
use super::members::{Lanes, Membership};
use super::publisher::Publisher;
use super::stuck::Budget;
use crate::events;
use crate::run::attempt::words;
use crate::run::{Control, Mode, WorkerState, is_final, monotonic, on_own_thread};

/// How long a stop waits for lanes to record what was published.
const LAST: Duration = Duration::from_millis(800);

/// What a dispatcher is made of.
pub(crate) struct Parts {
    pub(crate) scope: Scope,
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) owner: Arc<str>,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) timeout: Duration,
    pub(crate) batch: usize,
    pub(crate) concurrency: usize,
    pub(crate) budget: Budget,
    pub(crate) keep: Duration,
}

/// What all lanes of a running dispatcher share.
pub(crate) struct Shared {
    pub(crate) parts: Parts,
    pub(crate) keys: TopicKeys,
    pub(crate) kv: AppKeys,
    /// One for each key that is being published.
    pub(crate) turns: Semaphore,
    /// The application's runtime.
    pub(crate) publishers: Handle,
    control: Arc<Control>,
    mode: Mode,
    count: Count,
}

impl Shared {
    /// Whether it ends when nothing is due.
    pub(crate) fn drains(&self) -> bool {
        self.mode == Mode::Drain || self.control.drain.is_cancelled()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.parts.scope.now()
    }

    /// Events were delivered, the oldest of them this.
    pub(crate) fn delivered(&self, count: u64, now: Timestamp, oldest: Option<&EventId>) {
        self.count.add(count);
        let lag = oldest.map_or(Duration::ZERO, |id| now.saturating_since(Timestamp::from_micros(id.0)));
        events::delivered(self.keys.topic(), count, lag);
    }
}

/// Runs a dispatcher until a future ends, or nothing is due if it drains. Answers how many events it delivered.
pub(crate) async fn run(
    parts: Parts,
    keys: TopicKeys,
    control: Arc<Control>,
    mode: Mode,
    stop: impl Future<Output = ()>,
) -> Result<u64> {
    let publishers = crate::run::application_runtime()?;
    let (kv, turns) = (parts.scope.kv(), Semaphore::new(parts.concurrency));
    let shared = Arc::new(Shared {
        parts,
        keys,
        kv,
        turns,
        publishers,
        control: Arc::clone(&control),
        mode,
        count: Count::default(),
    });
    let serving = Arc::clone(&shared);
    let serve = async move { serve(&serving).await };
    on_own_thread("aedb-outbox", serve, &control, stop).await?;
    Ok(shared.count.get())
}

async fn serve(shared: &Arc<Shared>) -> Result<()> {
    let control = &shared.control;
    let (mut lanes, mut membership, mut running) = (Lanes::default(), Membership::default(), JoinSet::new());
    let ended = tokio::select! {
        () = control.stop.cancelled() => Ok(()),
        () = control.abandon.cancelled() => Ok(()),
        ended = keep(shared, &mut lanes, &mut membership, &mut running) => ended,
    };
    control.set(WorkerState::Stopping);
    lanes.release().await;
    let _ = timeout(LAST, async { while running.join_next().await.is_some() {} }).await;
    membership.leave(shared).await;
    control.set(WorkerState::Stopped);
    ended
}

/// Keeps membership and leases, three times in a lease, and starts a future for each new lane.
async fn keep(
    shared: &Arc<Shared>,
    lanes: &mut Lanes,
    membership: &mut Membership,
    running: &mut JoinSet<bool>,
) -> Result<()> {
    let (control, length, every) = (&shared.control, shared.parts.lease, shared.parts.lease / 3);
    let mut row = 0;
    loop {
        control.resumed().await;
        lanes.renew(length).await;
        // Whether a lane was lost before it was dry: then there is another round, even for a drain.
        let mut lost = false;
        let taken = match membership.share(shared).await {
            Ok(share) => lanes.balance(shared, share).await,
            Err(error) => Err(error),
        };
        match taken {
            Ok(taken) => {
                row = 0;
                control.set(WorkerState::Polling);
                for lane in taken {
                    running.spawn(serve_lane(Arc::clone(shared), lane));
                }
            }
            Err(error) if is_final(error.kind()) => return Err(error),
            Err(error) => {
                row += 1;
                control.set(WorkerState::Failing);
                events::store_away("outbox members", row, &error);
                lost = true;
            }
        }
        forget_delivered(shared).await;
        let next = monotonic::now() + every;
        while monotonic::now() < next {
            tokio::select! {
                Some(dry) = running.join_next() => lost |= !dry.unwrap_or(false),
                () = sleep(Duration::from_millis(50).min(every)) => {}
            }
            lanes.expire(length);
            if shared.drains() && running.is_empty() && !lost {
                return Ok(());
            }
        }
    }
}

/// Serves a lane. One that panics is given up, and taken anew in the next round.
async fn serve_lane(shared: Arc<Shared>, lane: Arc<Lane>) -> bool {
    let served = AssertUnwindSafe(lane::serve(&shared, &lane)).catch_unwind().await;
    served.unwrap_or_else(|panic| {
        events::service_panicked("outbox lane", words(&*panic), 1);
        lane.over.cancel();
        false
    })
}

/// Removes delivered events that were kept long enough.
async fn forget_delivered(shared: &Shared) {
    if shared.parts.keep.is_zero() {
        return;
    }
    loop {
        let Ok(page) = shared.kv.scan(KeyRange::prefix(shared.keys.all_delivered())).await else { return };
        let now = shared.now().as_micros();
        let old = page.into_iter().map(|(key, _)| key);
        let old: Vec<_> =
            old.take_while(|key| shared.keys.read_delivered(key).is_some_and(|until| until <= now)).collect();
        let whole_page = old.len() == 1_000;
        if old.is_empty() {
            return;
        }
        let effects = old.into_iter().fold(Effects::new(), Effects::delete);
        if shared.kv.commit(effects).await.is_err() || !whole_page {
            return;
        }
    }
}
