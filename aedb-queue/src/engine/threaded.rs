//! The engine's loop: one thread that drains all waiting verbs into one commit, or the caller itself (inline).

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::drive::Drive;
use super::job::Job;
use super::parked::Parked;
use super::turn::{Finished, turn};
use super::{Engine, ProgressFn, View};
use crate::clock::Clock;
use crate::error::Result;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard, mpsc};
use crate::time::Timestamp;

/// How often waiting verbs look for what another process committed.
const PEEK: Duration = Duration::from_millis(25);
/// How often waiting verbs look again whatever happens: the bound on a lost wake-up or a jumped clock.
const POLL: Duration = Duration::from_secs(1);
/// Up to this many answers are delivered by the writer itself; more go to a second thread, so that the next commit need
/// not wait while callers are woken.
const DELIVER_HERE: usize = 4;
/// From so many callers in one commit on, the next commit waits for them to come back: up to `NAPS` times `NAP`.
const CROWD: usize = 8;
const NAPS: u32 = 3;
const NAP: Duration = Duration::from_micros(20);

#[derive(Debug)]
pub(crate) struct Threaded {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    drive: Arc<dyn Drive>,
    clock: Arc<dyn Clock>,
    inbox: Mutex<Inbox>,
    bell: Condvar,
    /// The verbs that wait; inline mode runs them under this lock.
    parked: Mutex<Parked>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("drive", &self.drive).field("clock", &self.clock).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Inbox {
    jobs: Vec<Box<dyn Job>>,
    clock_moved: bool,
    closed: bool,
    /// The writer waits at the bell; ringing it at other times would be a system call for nothing.
    asleep: bool,
}

impl Threaded {
    pub(crate) fn start(drive: Arc<dyn Drive>, clock: Arc<dyn Clock>, inline: bool) -> Arc<dyn Engine> {
        let shared = Arc::new(Shared {
            drive,
            clock: Arc::clone(&clock),
            inbox: Mutex::default(),
            bell: Condvar::new(),
            parked: Mutex::default(),
        });
        let listener = Arc::downgrade(&shared);
        clock.on_move(Arc::new(move || {
            if let Some(shared) = listener.upgrade() {
                if inline { shared.tick() } else { shared.ring(|inbox| inbox.clock_moved = true) }
            }
        }));
        if inline {
            return Arc::new(Self { shared, writer: None });
        }
        let writing = Arc::clone(&shared);
        let listener = Arc::downgrade(&shared);
        shared.drive.on_change(Arc::new(move || {
            if let Some(shared) = listener.upgrade() {
                shared.ring(|inbox| inbox.clock_moved = true);
            }
        }));
        // Without threads there is no engine: then every verb runs inline, which is slower but right.
        let writer = thread::Builder::new().name("aedb-writer".into()).spawn(move || writing.write_until_closed()).ok();
        Arc::new(Self { shared, writer })
    }
}

impl Engine for Threaded {
    fn submit(&self, job: Box<dyn Job>) {
        if self.writer.is_none() {
            return self.shared.run_here(vec![job], false);
        }
        self.shared.ring(|inbox| inbox.jobs.push(job));
    }

    fn serves_waiting(&self) -> bool {
        self.writer.is_some()
    }

    fn view(&self, read: &mut dyn FnMut(&dyn View, Timestamp) -> Result<()>) -> Result<()> {
        let now = self.shared.clock.now();
        self.shared.drive.view(&mut |view| read(view, now))
    }

    fn backup(&self, to: &Path, progress: ProgressFn<'_>) -> Result<()> {
        self.shared.drive.backup(to, progress)
    }

    fn compact(&self, progress: ProgressFn<'_>) -> Result<bool> {
        self.shared.drive.compact(progress)
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.shared.ring(|inbox| inbox.closed = true);
        if let Some(writer) = self.writer.take()
            && writer.thread().id() != thread::current().id()
        {
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, change: impl FnOnce(&mut Inbox)) {
        let asleep = {
            let mut inbox = self.inbox();
            change(&mut inbox);
            std::mem::take(&mut inbox.asleep)
        };
        if asleep {
            self.bell.notify_one();
        }
    }

    /// Inline mode: one verb, one commit, on the caller's thread.
    fn run_here(&self, jobs: Vec<Box<dyn Job>>, recheck: bool) {
        let (finished, later) = {
            let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
            turn(&*self.drive, self.clock.now(), jobs, &mut parked, recheck)
        };
        deliver(finished);
        if !later.is_empty() {
            self.run_here(later, false);
        }
    }

    /// Inline mode: the clock moved, so verbs that wait may have something to do.
    fn tick(&self) {
        self.run_here(Vec::new(), true);
    }

    fn write_until_closed(&self) {
        let (answers, delivering) = mpsc::channel::<Finished>();
        // Not joined: the last handle may be dropped by an answer that this thread delivers.
        let deliverer =
            thread::Builder::new().name("aedb-answers".into()).spawn(move || delivering.iter().for_each(deliver)).ok();
        let mut parked = Parked::default();
        let (mut last, mut looked) = (0, self.clock.now());
        while let Some((mut jobs, recheck)) = self.gather(&parked) {
            self.let_callers_return(&mut jobs, last);
            last = jobs.len();
            let now = self.clock.now();
            // A writer that is never idle must look for other processes' work too.
            let recheck = recheck || now.saturating_since(looked) >= self.patience();
            if recheck {
                looked = now;
            }
            let (finished, later) = turn(&*self.drive, now, jobs, &mut parked, recheck);
            if !later.is_empty() {
                drop(self.inbox().jobs.splice(0..0, later));
            }
            if finished.0.len() <= DELIVER_HERE || deliverer.is_none() {
                deliver(finished);
            } else if let Err(mpsc::SendError(finished)) = answers.send(finished) {
                deliver(finished);
            }
        }
    }

    /// Waits for something to do: verbs, or a reason to run the waiting ones again. `None` once the database is closed
    /// and everything accepted is done.
    fn gather(&self, parked: &Parked) -> Option<(Vec<Box<dyn Job>>, bool)> {
        let mut inbox = self.inbox();
        loop {
            if !inbox.jobs.is_empty() {
                return Some((std::mem::take(&mut inbox.jobs), false));
            }
            if inbox.closed {
                return None;
            }
            if std::mem::take(&mut inbox.clock_moved) && !parked.is_empty() {
                return Some((Vec::new(), true));
            }
            let Some(wait) = self.pause(parked) else {
                inbox.asleep = true;
                inbox = self.bell.wait(inbox).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            inbox.asleep = true;
            let (woken, timeout) = self.bell.wait_timeout(inbox, wait).unwrap_or_else(PoisonError::into_inner);
            inbox = woken;
            inbox.asleep = false;
            if timeout.timed_out() {
                return Some((Vec::new(), true));
            }
        }
    }

    /// With many callers, those of the commit before are just being answered and will be back at once: one commit of all
    /// costs less than two of half each. A few short naps, a fraction of what a commit takes.
    fn let_callers_return(&self, jobs: &mut Vec<Box<dyn Job>>, last: usize) {
        let here = jobs.len();
        if last < CROWD {
            return;
        }
        for _ in 0..NAPS {
            if jobs.len() >= here + last {
                return;
            }
            thread::sleep(NAP);
            jobs.append(&mut self.inbox().jobs);
        }
    }

    /// How long to really sleep until a parked verb may have something to do; `None` until somebody rings.
    fn pause(&self, parked: &Parked) -> Option<Duration> {
        if parked.is_empty() {
            return None;
        }
        if parked.owes() {
            return Some(Duration::ZERO);
        }
        let longest = self.patience();
        let wait = parked.next_wake().map_or(longest, |at| at.saturating_since(self.clock.now()).min(longest));
        self.clock.sleep_for(wait)
    }

    /// The longest that waiting verbs go without a look.
    fn patience(&self) -> Duration {
        if self.drive.is_shared() { PEEK } else { POLL }
    }
}

fn deliver((jobs, commit): Finished) {
    for job in jobs {
        job.finish(commit.clone().map_err(Into::into));
    }
}
