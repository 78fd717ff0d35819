//! One turn of the engine: run the waiting verbs against the table, commit once, answer all.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::View;
use super::disk::Disk;
use super::job::{Job, Step};
use super::overlay::{Overlay, Txn};
use crate::error::Result;
use crate::time::Timestamp;

/// A verb that waits for something to become ready.
pub(super) struct Parked {
    job: Box<dyn Job>,
    topic: Vec<u8>,
    until: Option<Timestamp>,
}

impl Parked {
    fn wakes(&self) -> Option<Timestamp> {
        match (self.until, self.job.gives_up()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Jobs with the answer of their commit, for whoever delivers them.
pub(super) type Finished = (Vec<Box<dyn Job>>, Result<(), CommitError>);

/// Why a commit gave no answer, in a form that every job of the batch gets a copy of.
#[derive(Debug, Clone)]
pub(super) struct CommitError {
    pub(super) kind: crate::error::ErrorKind,
    pub(super) message: String,
}

impl From<CommitError> for crate::error::Error {
    fn from(error: CommitError) -> Self {
        Self::new(error.kind, error.message)
    }
}

/// Runs the jobs, and those parked that something in this turn makes ready, in one commit.
pub(super) fn turn(
    disk: &Disk,
    now: Timestamp,
    jobs: Vec<Box<dyn Job>>,
    parked: &mut Vec<Parked>,
    recheck: bool,
) -> Finished {
    let mut done = Vec::with_capacity(jobs.len());
    let mut jobs = Some(jobs);
    let commit = disk.write(&mut |base| {
        let overlay = RefCell::new(Overlay::default());
        for job in jobs.take().unwrap_or_default() {
            if !job.is_abandoned() {
                run(base, &overlay, now, job, &mut done, parked);
            }
        }
        serve(base, &overlay, now, &mut done, parked, recheck);
        overlay.into_inner()
    });
    // The disk refused before it ran anything: those jobs still want their answer.
    done.extend(jobs.take().unwrap_or_default());
    if commit.is_err() {
        // So do those that wait: a disk that has failed would never serve them, and they would wait for ever.
        done.extend(parked.drain(..).map(|waiting| waiting.job));
    }
    (done, commit)
}

/// The instant at which a parked verb wants to run by itself.
pub(super) fn next_wake(parked: &[Parked]) -> Option<Timestamp> {
    parked.iter().filter_map(Parked::wakes).min()
}

fn run(
    base: &dyn View,
    overlay: &RefCell<Overlay>,
    now: Timestamp,
    mut job: Box<dyn Job>,
    done: &mut Vec<Box<dyn Job>>,
    parked: &mut Vec<Parked>,
) {
    let mut txn = Txn::new(base, overlay, now);
    let step = catch_unwind(AssertUnwindSafe(|| job.run(&mut txn))).unwrap_or(Step::Failed);
    let mut overlay = overlay.borrow_mut();
    match step {
        Step::Done => {
            overlay.keep();
            done.push(job);
        }
        Step::Failed => {
            overlay.undo();
            done.push(job);
        }
        Step::Wait { topic, until } => {
            // A waiting claim may have promoted or reclaimed work for others on its way: that stays.
            overlay.keep();
            parked.push(Parked { job, topic, until });
        }
    }
}

/// Runs parked verbs whose topic was touched or whose time has come, first come, first served.
fn serve(
    base: &dyn View,
    overlay: &RefCell<Overlay>,
    now: Timestamp,
    done: &mut Vec<Box<dyn Job>>,
    parked: &mut Vec<Parked>,
    recheck: bool,
) {
    parked.retain(|p| !p.job.is_abandoned());
    let touched = overlay.borrow_mut().take_touched();
    let due = |p: &Parked| recheck || touched.contains(&p.topic) || p.wakes().is_some_and(|at| at <= now);
    if !parked.iter().any(due) {
        return;
    }
    for waiting in std::mem::take(parked) {
        if due(&waiting) {
            run(base, overlay, now, waiting.job, done, parked);
        } else {
            parked.push(waiting);
        }
    }
    // Verbs that were served may have touched topics again (a reclaim during a claim); those are handled by the same claim.
    overlay.borrow_mut().take_touched();
}
