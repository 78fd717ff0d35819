//! One turn of the engine: run the waiting verbs against the table, commit once, answer all.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::View;
use super::disk::Disk;
use super::job::{Job, Step};
use super::overlay::{Overlay, Txn};
use super::parked::Parked;
use crate::error::Result;
use crate::time::Timestamp;

/// How often the waiting verbs of one turn may give one another something to do; what is left is for the next turn, so
/// that one commit does not grow without bound.
const ROUNDS: usize = 4;

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
    parked: &mut Parked,
    recheck: bool,
) -> Finished {
    let mut done = Vec::with_capacity(jobs.len());
    let mut jobs = Some(jobs);
    let commit = disk.write(&mut |base| {
        let overlay = RefCell::new(Overlay::default());
        for job in jobs.take().unwrap_or_default() {
            if !job.is_abandoned() {
                run(base, &overlay, now, job, None, &mut done, parked);
            }
        }
        serve(base, &overlay, now, &mut done, parked, recheck);
        overlay.into_inner()
    });
    // The disk refused before it ran anything: those jobs still want their answer.
    done.extend(jobs.take().unwrap_or_default());
    if commit.is_err() {
        // So do those that wait: a disk that has failed would never serve them, and they would wait for ever.
        done.extend(parked.drain());
    }
    (done, commit)
}

fn run(
    base: &dyn View,
    overlay: &RefCell<Overlay>,
    now: Timestamp,
    mut job: Box<dyn Job>,
    place: Option<u64>,
    done: &mut Vec<Box<dyn Job>>,
    parked: &mut Parked,
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
            parked.park(place, job, topic, until);
        }
    }
}

/// Runs parked verbs whose topic was touched or whose time has come, first come, first served.
///
/// What they do may touch topics again: a claim that reclaims may make a task dead that somebody waits for.
fn serve(
    base: &dyn View,
    overlay: &RefCell<Overlay>,
    now: Timestamp,
    done: &mut Vec<Box<dyn Job>>,
    parked: &mut Parked,
    recheck: bool,
) {
    let touched = overlay.borrow_mut().take_touched();
    parked.owe(&touched);
    parked.owe_due(now, recheck);
    for _ in 0..ROUNDS {
        for (place, job) in parked.take_owed() {
            run(base, overlay, now, job, Some(place), done, parked);
        }
        let touched = overlay.borrow_mut().take_touched();
        if touched.is_empty() {
            return;
        }
        parked.owe(&touched);
    }
}
