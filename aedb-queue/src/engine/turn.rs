//! One turn of the engine: run the waiting verbs against the table, commit once, answer all.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::View;
use super::drive::{CommitError, Drive};
use super::job::{Job, Step};
use super::overlay::{Overlay, Txn};
use super::parked::Parked;
use crate::error::ErrorKind;
use crate::time::Timestamp;

/// How often the waiting verbs of one turn may give one another something to do; what is left is for the next turn, so
/// that one commit does not grow without bound.
const ROUNDS: usize = 4;

/// Jobs with the answer of their commit, for whoever delivers them.
pub(super) type Finished = (Vec<Box<dyn Job>>, Result<(), CommitError>);

/// How often a batch is run again because something that it had read was changed by others before it could commit.
const CONFLICTS: usize = 16;

/// Runs the jobs, and those parked that something in this turn makes ready, in one commit. What does not fit into it comes back for
/// the next turn, in order, before all that came later.
pub(super) fn turn(
    drive: &dyn Drive,
    now: Timestamp,
    mut jobs: Vec<Box<dyn Job>>,
    parked: &mut Parked,
    mut recheck: bool,
) -> (Finished, Vec<Box<dyn Job>>) {
    let mut conflicts = 0;
    loop {
        let caller = jobs.iter().find(|job| !job.is_abandoned()).and_then(|job| job.caller().map(str::to_owned));
        let mut turn = Turn { now, parked, drive, caller: caller.clone(), done: Vec::new(), later: Vec::new() };
        let mut waiting = Some(std::mem::take(&mut jobs));
        let commit = drive.write(caller.as_deref(), &mut |base| {
            let overlay = RefCell::new(Overlay::default());
            for job in waiting.take().unwrap_or_default() {
                if !job.is_abandoned() {
                    turn.run(base, &overlay, job, None);
                }
            }
            turn.serve(base, &overlay, recheck);
            overlay.into_inner()
        });
        let Turn { mut done, mut later, .. } = turn;
        // The drive refused before it ran anything: those jobs still want their answer.
        done.extend(waiting.take().unwrap_or_default());
        let Err(error) = &commit else { return ((done, commit), later) };
        if drive.is_contended() && error.kind == ErrorKind::Conflict && conflicts < CONFLICTS {
            conflicts += 1;
            done.iter_mut().for_each(|job| job.rewind());
            jobs = done;
            jobs.append(&mut later);
            recheck = true;
            continue;
        }
        if drive.is_contended() && error.kind != ErrorKind::UnknownOutcome && done.len() > 1 {
            // One of them was refused: it must not take its neighbours along. Each first one is tried alone.
            done.iter_mut().for_each(|job| job.rewind());
            later.splice(0..0, done.drain(1..));
            let ((done, commit), mut behind) = self::turn(drive, now, done, parked, recheck);
            behind.append(&mut later);
            return ((done, commit), behind);
        }
        done.iter_mut().for_each(|job| job.withdraw());
        if !drive.is_contended() {
            // So do those that wait: a disk that has failed would never serve them, and they would wait for ever.
            done.extend(parked.drain());
        }
        return ((done, commit), later);
    }
}

struct Turn<'a> {
    now: Timestamp,
    parked: &'a mut Parked,
    drive: &'a dyn Drive,
    caller: Option<String>,
    done: Vec<Box<dyn Job>>,
    later: Vec<Box<dyn Job>>,
}

impl Turn<'_> {
    fn run(&mut self, base: &dyn View, overlay: &RefCell<Overlay>, mut job: Box<dyn Job>, place: Option<u64>) {
        let contended = self.drive.is_contended();
        // One envelope has one caller, and keeps the order in which verbs came.
        if contended && (!self.later.is_empty() || job.caller() != self.caller.as_deref()) {
            return self.later.push(job);
        }
        let mut txn = Txn::new(base, overlay, self.now);
        let step = catch_unwind(AssertUnwindSafe(|| job.run(&mut txn, contended))).unwrap_or(Step::Failed);
        let mut overlay = overlay.borrow_mut();
        if !matches!(step, Step::Failed)
            && let Err(error) = self.drive.fits(overlay.size())
        {
            let alone = !overlay.has_kept();
            overlay.undo();
            if alone {
                job.refuse(error);
                self.done.push(job);
            } else {
                job.rewind();
                self.later.push(job);
            }
            return;
        }
        match step {
            Step::Done => {
                overlay.keep();
                self.done.push(job);
            }
            Step::Failed => {
                overlay.undo();
                self.done.push(job);
            }
            Step::Wait { topic, until } => {
                // A waiting claim may have promoted or reclaimed work for others on its way: that stays.
                overlay.keep();
                self.parked.park(place, job, topic, until);
            }
        }
    }

    /// Runs parked verbs whose topic was touched or whose time has come, first come, first served.
    ///
    /// What they do may touch topics again: a claim that reclaims may make a task dead that somebody waits for.
    fn serve(&mut self, base: &dyn View, overlay: &RefCell<Overlay>, recheck: bool) {
        let touched = overlay.borrow_mut().take_touched();
        self.parked.owe(&touched);
        self.parked.owe_due(self.now, recheck);
        for _ in 0..ROUNDS {
            for (place, job) in self.parked.take_owed() {
                self.run(base, overlay, job, Some(place));
            }
            let touched = overlay.borrow_mut().take_touched();
            if touched.is_empty() {
                return;
            }
            self.parked.owe(&touched);
        }
    }
}
