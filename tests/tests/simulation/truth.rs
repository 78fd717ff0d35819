//! What is known of the database from its own answers, and the rules of the contract that each further answer must keep.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use aedb_queue::{
    ClaimedTask, Clock as _, Counters, Decision, EnqueueOutcome, FencedCommit, Heartbeat, HeartbeatOutcome, LeaseLoss,
    Settlement, StateKind, TaskId, TaskRecord, TaskState, Timestamp,
};

use super::tally::Tally;
use super::time::WallClock;

/// How many lines of the history are shown with a fault.
const SHOWN: usize = 120;

/// What is known, what happened, and the first rule that was broken.
#[derive(Debug)]
pub(crate) struct Truth {
    clock: WallClock,
    pub(crate) tally: Tally,
    pub(crate) broken: Option<String>,
    tasks: BTreeMap<TaskId, Known>,
    keys: BTreeMap<Arc<str>, TaskId>,
    claims: BTreeMap<(TaskId, u64), Claim>,
    running: BTreeSet<(TaskId, u64)>,
    leases: BTreeMap<Arc<str>, u64>,
    /// What excuses two attempts of one task at once.
    clock_set: u64,
    clock_set_back: u64,
    stopped: BTreeMap<Arc<str>, u64>,
    cancelled: BTreeMap<TaskId, u64>,
    lines: VecDeque<String>,
    hash: DefaultHasher,
}

/// A task as it was last seen.
#[derive(Debug)]
struct Known {
    record: TaskRecord,
    /// The last token under which somebody got it.
    handed: u64,
}

/// The circumstances under which a claim was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    owner: Arc<str>,
    clock_set: u64,
    stopped: u64,
    cancelled: u64,
}

/// A settled item with the record before and after it.
pub(crate) struct Settled<'a> {
    pub(crate) item: &'a Settlement,
    pub(crate) before: Option<&'a TaskRecord>,
    pub(crate) after: Option<&'a TaskRecord>,
    /// No other item of the call is about the same task.
    pub(crate) alone: bool,
}

macro_rules! rule {
    ($truth:expr, $holds:expr, $($words:tt)+) => {
        if !$holds {
            $truth.breaks(format!($($words)+));
        }
    };
}

impl Truth {
    pub(crate) fn new(clock: &WallClock) -> Self {
        Self {
            clock: clock.clone(),
            tally: Tally::default(),
            broken: None,
            tasks: BTreeMap::new(),
            keys: BTreeMap::new(),
            claims: BTreeMap::new(),
            running: BTreeSet::new(),
            leases: BTreeMap::new(),
            clock_set: 0,
            clock_set_back: 0,
            stopped: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            lines: VecDeque::new(),
            hash: DefaultHasher::new(),
        }
    }

    pub(crate) fn happened(&mut self, what: &'static str) {
        self.tally.add(what, 1);
    }

    /// Adds a line to the history.
    pub(crate) fn note(&mut self, line: String) {
        let line = format!("{:9.3} {line}", self.clock.passed().as_secs_f64());
        line.hash(&mut self.hash);
        self.lines.push_back(line);
        if self.lines.len() > SHOWN {
            self.lines.pop_front();
        }
    }

    /// A number that differs if any line of the history does.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.hash.finish()
    }

    /// A rule of the contract was broken; the first time counts.
    pub(crate) fn breaks(&mut self, rule: String) {
        if self.broken.is_none() {
            let lines = self.lines.make_contiguous().join("\n");
            self.broken = Some(format!("{lines}\nBROKEN: {rule}"));
        }
    }

    fn learn(&mut self, record: &TaskRecord) {
        if let Some(key) = &record.idempotency_key {
            self.keys.insert(Arc::clone(key), record.id);
        }
        let known = self.tasks.entry(record.id);
        known.and_modify(|known| known.record = record.clone()).or_insert(Known { record: record.clone(), handed: 0 });
    }

    /// A key leads to one task (rule 14), and an enqueued task is there (rule 2).
    pub(crate) fn enqueued(&mut self, outcome: &EnqueueOutcome, record: Option<&TaskRecord>) {
        let Some(record) = record else { return self.breaks(format!("{} was enqueued and is not there", outcome.id)) };
        let (id, before) = (outcome.id, record.idempotency_key.as_ref().and_then(|key| self.keys.get(key)).copied());
        if outcome.deduplicated {
            self.happened("an enqueue was deduplicated");
            rule!(self, before.is_none_or(|before| before == id), "{id} is not the key's task {before:?}");
        } else {
            rule!(self, before.is_none(), "{id} has the key of {before:?}");
            rule!(self, !self.tasks.contains_key(&id), "the id {id} was given twice");
        }
        self.note(format!("enqueued {id} {:?} {:?}", outcome.deduplicated, record.idempotency_key));
        self.learn(record);
    }

    /// Tokens grow (rule 5), nobody else holds the task (rules 4, 7), it is due (rule 8) and not finished, its progress is the last
    /// that was recorded (rule 12), and its budget is not spent (rule 9).
    pub(crate) fn claimed(
        &mut self,
        task: &ClaimedTask,
        owner: &Arc<str>,
        record: Option<&TaskRecord>,
        now: Timestamp,
    ) {
        let (id, token) = (task.id, task.token.as_u64());
        self.note(format!("claimed {id} by {owner} under {token}, {:?}", task.counters));
        let circumstances = self.circumstances(owner, id);
        rule!(
            self,
            self.claims.insert((id, token), circumstances).is_none(),
            "{id} was handed out twice under {token}"
        );
        rule!(self, task.counters.failures < task.max_attempts, "{id} has no attempts left");
        let Some(known) = self.tasks.get_mut(&id) else {
            return record.into_iter().for_each(|record| self.learn(record));
        };
        let (before, last) = (known.record.clone(), std::mem::replace(&mut known.handed, token));
        rule!(self, token > last, "{id} was handed out under {token} after {last}");
        // A claim that waited is answered a moment after it was served; what was done under its token meanwhile is known already.
        if before.token.as_u64() < token {
            // What was due before the clock was set back has been moved, perhaps, and stays so.
            let passed = |at: Timestamp| at <= now || self.clock_set_back > 0;
            match &before.state {
                // Claimed for somebody who no longer waited: it was given back, and had no holder.
                TaskState::InFlight { .. } if before.token.as_u64() != last => {}
                TaskState::InFlight { deadline, .. } => {
                    rule!(self, passed(*deadline), "{id} was taken from its holder before {deadline:?}");
                    self.happened("a lost lease was taken over");
                }
                TaskState::Scheduled { due } => rule!(self, passed(*due), "{id} was handed out before {due:?}"),
                TaskState::Ready { .. } => {}
                finished => self.breaks(format!("{id} was handed out though it is {finished:?}")),
            }
            rule!(self, task.progress == before.progress, "{id} starts with {:?}, not {before:?}", task.progress);
            if task.progress.is_some() {
                self.happened("a checkpoint was taken over by the next attempt");
            }
            let fair = deliveries(&task.counters) > deliveries(&before.counters);
            rule!(self, fair, "{id} was handed out uncounted: {:?}, {:?}", task.counters, before.counters);
            record.into_iter().for_each(|record| self.learn(record));
        }
    }

    /// Higher priorities first, then the older (rule 8), but while clocks are set back nobody knows who is older.
    pub(crate) fn in_order(&mut self, claimed: &[ClaimedTask], ready: &[TaskRecord], served: Timestamp) {
        if self.clock_set_back > 0 {
            return;
        }
        let rank = |priority: u64, id: TaskId| (u64::MAX - priority, id);
        let ranks: Vec<_> = claimed.iter().map(|task| rank(task.priority, task.id)).collect();
        rule!(self, ranks.is_sorted(), "claimed out of order: {ranks:?}");
        for record in ready {
            let waits = matches!(record.state, TaskState::Ready { since } if since < served && record.updated < served);
            let passed_over = ranks.last().is_some_and(|last| rank(record.priority, record.id) < *last);
            rule!(self, !(waits && passed_over), "{} was passed over: {record:?}", record.id);
        }
    }

    /// An outcome applies if and only if its token holds the task (rules 4, 7); if not, nothing changes.
    pub(crate) fn settled(&mut self, settled: &Settled<'_>, answer: &Result<FencedCommit, aedb_queue::Error>) {
        let Settled { item, before, after, alone } = settled;
        let (id, token, now) = (item.id, item.token.as_u64(), self.clock.now());
        let answer = match answer {
            Ok(answer) => *answer,
            // Each effect of the simulation is right as long as it is applied once.
            Err(error) => return self.breaks(format!("{id} under {token} was refused: {error}")),
        };
        self.note(format!("settled {id} under {token}: {} {answer:?}", verb(&item.decision)));
        let holds = before.is_some_and(|before| holds(before, token));
        match answer {
            FencedCommit::Applied => {
                rule!(self, holds || !alone, "{id} was settled under {token}: {before:?}");
                if let Some(after) = after {
                    self.applied(&item.decision, *before, after);
                    self.learn(after);
                }
            }
            FencedCommit::LeaseLost(loss) => {
                rule!(self, !holds, "{id} under {token} was refused as {loss:?}: {before:?}");
                rule!(
                    self,
                    !alone || untouched(*before, *after, now),
                    "{id} was changed under {token}: {before:?} to {after:?}"
                );
                self.happened(match (loss, &item.decision) {
                    (LeaseLoss::AlreadySettled, _) => "an outcome was asked for twice and applied once",
                    (LeaseLoss::Cancelled, _) => "a cancelled task was left alone by its worker",
                    (_, Decision::Release) => "a lease that is lost was released",
                    _ => "a zombie's outcome was refused",
                });
            }
        }
    }

    /// What each outcome makes of a task, and what it charges (rules 9, 10).
    fn applied(&mut self, decision: &Decision, before: Option<&TaskRecord>, after: &TaskRecord) {
        let Some(before) = before else { return };
        let (was, is, kind) = (&before.counters, &after.counters, after.state.kind());
        // A claim that waits for it is served in the same commit.
        let waits = matches!(kind, StateKind::Ready | StateKind::Scheduled) || after.token > before.token;
        let unchanged = was.failures == is.failures && was.lost_leases == is.lost_leases;
        let (what, right) = match decision {
            Decision::Complete(_) => ("a completion was applied", kind == StateKind::Done && unchanged),
            Decision::Fail { .. } => {
                let fair = is.failures == was.failures + 1 && is.failures <= after.max_attempts;
                (
                    "a failure was charged",
                    fair && (kind == StateKind::Dead || waits && is.failures < after.max_attempts),
                )
            }
            Decision::Snooze(_) => ("a task snoozed", waits && unchanged && is.snoozes == was.snoozes + 1),
            Decision::Release => ("a task was given back", waits && unchanged),
            Decision::Discard { .. } => ("a task ended as discarded", kind == StateKind::Cancelled),
            _ => ("a task went on with a new payload", waits && is.failures == 0 && after.progress.is_none()),
        };
        self.happened(what);
        if kind == StateKind::Dead {
            self.happened("a task died of its failures");
        }
        rule!(self, right, "{} made {before:?} into {after:?}", verb(decision));
    }

    /// A heartbeat extends the living only, and never shortens (rule 12).
    pub(crate) fn beaten(
        &mut self,
        beat: &Heartbeat,
        before: Option<&TaskRecord>,
        after: Option<&TaskRecord>,
        answer: HeartbeatOutcome,
    ) {
        let (id, token, now) = (beat.id, beat.token.as_u64(), self.clock.now());
        let held = before.is_some_and(|before| holds(before, token));
        self.note(format!("heartbeat {id} under {token}: {answer:?}"));
        match answer {
            HeartbeatOutcome::Extended(until) => {
                rule!(self, held, "{id} was extended under {token}: {before:?}");
                if let (Some(TaskState::InFlight { deadline, .. }), Some(after)) = (before.map(|b| &b.state), after) {
                    rule!(self, until >= *deadline, "the lease of {id} was cut from {deadline:?} to {until:?}");
                    rule!(self, beat.progress.is_none() || beat.progress == after.progress, "{id} forgot its progress");
                    self.learn(after);
                }
            }
            HeartbeatOutcome::LeaseLost(_) => {
                self.happened("a heartbeat of a lost lease was refused");
                rule!(self, !held && untouched(before, after, now), "{id} under {token}: {before:?} to {after:?}");
            }
        }
    }

    /// A task that has not finished can be cancelled, and no other.
    pub(crate) fn cancelled(
        &mut self,
        id: TaskId,
        before: Option<&TaskRecord>,
        after: Option<&TaskRecord>,
        answer: bool,
    ) {
        let lived = before.is_some_and(|before| before.state.finished().is_none());
        let gone = after.is_some_and(|after| after.state.kind() == StateKind::Cancelled);
        rule!(self, answer == lived && (!answer || gone), "cancelling {id} made {before:?} into {after:?}");
        if answer {
            *self.cancelled.entry(id).or_default() += 1;
        }
        self.note(format!("cancelled {id}: {answer}"));
        after.into_iter().for_each(|after| self.learn(after));
    }

    /// A task was changed by hand; it has a fresh budget if it lives again.
    pub(crate) fn changed(&mut self, before: Option<&TaskRecord>, after: Option<&TaskRecord>) {
        let (Some(before), Some(after)) = (before, after) else { return };
        if before.state.finished().is_some() && after.state.finished().is_none() {
            rule!(self, after.counters.failures == 0, "retried with {:?}", after.counters);
            self.happened("a dead task was retried by hand");
        }
        self.note(format!("changed {} from {:?} to {:?}", after.id, before.state.kind(), after.state.kind()));
        self.learn(after);
    }

    /// Sweeps and claims find tasks dead whose workers were lost as often as allowed.
    pub(crate) fn died(&mut self, record: &TaskRecord) {
        self.happened("a task died of its lost leases");
        self.note(format!("died {}", record.id));
        self.learn(record);
    }

    /// A lease's token grows each time that it changes hands (rule 5).
    pub(crate) fn acquired(&mut self, name: &Arc<str>, token: u64) {
        let last = self.leases.insert(Arc::clone(name), token).unwrap_or_default();
        rule!(self, token > last, "the lease {name} has the token {token} after {last}");
        self.note(format!("acquired {name} under {token}"));
    }

    /// A guarded commit needs a current lease (rule 17).
    pub(crate) fn guarded(&mut self, name: &str, current: bool, answer: FencedCommit) {
        rule!(self, answer.is_applied() == current, "a commit under {name}: {answer:?}, but its lease is {current}");
        self.note(format!("guarded by {name}: {answer:?}"));
        self.happened(match answer {
            FencedCommit::Applied => "a guarded commit was applied",
            FencedCommit::LeaseLost(_) => "a guarded commit without its lease was refused",
        });
    }

    /// After the database was opened again: what was acknowledged is there, and has not gone back (rules 2, 5).
    pub(crate) fn reopened(&mut self, there: &[TaskRecord]) {
        let records: BTreeMap<TaskId, &TaskRecord> = there.iter().map(|record| (record.id, record)).collect();
        for (id, known) in std::mem::take(&mut self.tasks) {
            let Some(record) = records.get(&id) else { return self.breaks(format!("{id} is lost: {known:?}")) };
            let was = &known.record;
            let finished = was.state.finished().is_some();
            rule!(self, record.token >= was.token, "{id} has gone back: {was:?} to {record:?}");
            rule!(self, !finished || record.state == was.state, "{id} lives again: {was:?} to {record:?}");
            rule!(self, deliveries(&record.counters) >= deliveries(&was.counters), "{was:?} became {record:?}");
            self.tasks.insert(id, Known { record: (*record).clone(), ..known });
        }
        there.iter().for_each(|record| self.learn(record));
        self.note(format!("reopened with {} tasks", there.len()));
    }

    fn circumstances(&self, owner: &Arc<str>, id: TaskId) -> Claim {
        Claim {
            owner: Arc::clone(owner),
            clock_set: self.clock_set,
            stopped: self.stopped.get(owner).copied().unwrap_or_default(),
            cancelled: self.cancelled.get(&id).copied().unwrap_or_default(),
        }
    }

    /// A handler starts. No other attempt of the task runs (rule 18), unless its worker cannot know: it was stopped, the database's
    /// clock was set, or somebody cancelled the task and let it live again.
    pub(crate) fn starts(&mut self, id: TaskId, token: u64) {
        self.note(format!("starts {id} under {token}"));
        let others: Vec<_> = self.running.range((id, 0)..=(id, u64::MAX)).map(|(_, token)| *token).collect();
        for other in others {
            // The one with the older token has no right to run.
            let Some(claim) = self.claims.get(&(id, other.min(token))).cloned() else { continue };
            let excused = claim != self.circumstances(&claim.owner, id);
            rule!(self, excused, "{id} runs under {token} while it still runs under {other}, held by {}", claim.owner);
            self.happened("two attempts ran at once, one of them a zombie's");
        }
        self.running.insert((id, token));
    }

    pub(crate) fn ends(&mut self, id: TaskId, token: u64) {
        self.running.remove(&(id, token));
        self.note(format!("ends {id} under {token}"));
    }

    pub(crate) fn clock_was_set(&mut self, back: bool) {
        self.clock_set += 1;
        self.clock_set_back += u64::from(back);
        self.happened(if back { "the clock was set back" } else { "the clock was set forward" });
        self.note(format!("the clock was set {}", if back { "back" } else { "forward" }));
    }

    pub(crate) fn stopped(&mut self, worker: &Arc<str>) {
        *self.stopped.entry(Arc::clone(worker)).or_default() += 1;
        self.note(format!("stopped {worker}"));
    }

    /// A task that may be cancelled, amended or asked about, by a number.
    pub(crate) fn some_task(&self, number: usize) -> Option<(TaskId, Arc<str>)> {
        let at = number.checked_rem(self.tasks.len())?;
        self.tasks.values().nth(at).map(|known| (known.record.id, Arc::clone(&known.record.queue)))
    }
}

/// Whether the token holds the task: it may be extended and settled, also if the lease ran out and nobody has noticed.
fn holds(record: &TaskRecord, token: u64) -> bool {
    matches!(record.state, TaskState::InFlight { .. }) && record.token.as_u64() == token
}

/// Whether a call that was refused has left the record alone. The commit may have served a claim that waits, or moved what was due.
fn untouched(before: Option<&TaskRecord>, after: Option<&TaskRecord>, now: Timestamp) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return before.is_none() && after.is_none() };
    let moved = |due: Timestamp| due <= now;
    before == after
        || after.token > before.token && before.state.finished().is_none()
        || match before.state {
            TaskState::InFlight { deadline, .. } => moved(deadline),
            TaskState::Scheduled { due } => moved(due),
            _ => false,
        }
}

fn deliveries(counters: &Counters) -> u32 {
    counters.deliveries
}

fn verb(decision: &Decision) -> &'static str {
    match decision {
        Decision::Complete(_) => "complete",
        Decision::Fail { .. } => "fail",
        Decision::Snooze(_) => "snooze",
        Decision::Release => "release",
        Decision::Discard { .. } => "discard",
        _ => "continue",
    }
}
