//! Mistakes to plant in the queue's own code, to see that the tests find them.

/// A mistake: a piece of a source file, and what stands there instead.
#[derive(Debug, Clone, Copy)]
pub struct Planted {
    /// What somebody got wrong.
    pub what: &'static str,
    /// The file, from the workspace's root.
    pub file: &'static str,
    /// The right code, which is there once.
    pub right: &'static str,
    /// The wrong code.
    pub wrong: &'static str,
}

const TRANSITION: &str = "aedb-queue/src/model/transition.rs";
const LEASE: &str = "aedb-queue/src/kv/lease.rs";
const RECORD: &str = "aedb-queue/src/kv/record.rs";

/// All of them.
pub const PLANTED: &[Planted] = &[
    Planted {
        what: "settle does not compare the token",
        file: TRANSITION,
        right: "        _ if task.token != token => Err(LeaseLoss::TakenOver),\n        TaskState::InFlight",
        wrong: "        TaskState::InFlight",
    },
    Planted {
        what: "a claim does not grow the token",
        file: TRANSITION,
        right: "    task.token = task.token.next(floor);",
        wrong: "    task.token = task.token.max(floor).max(FencingToken::from_u64(1));",
    },
    Planted {
        what: "a lost lease is charged as a failure",
        file: TRANSITION,
        right: "    task.counters.lost_leases = task.counters.lost_leases.saturating_add(1);\n    uncharge(task);",
        wrong: "    task.counters.lost_leases = task.counters.lost_leases.saturating_add(1);\n    task.counters.failures += 1;",
    },
    Planted {
        what: "a lease is reclaimed a moment before its deadline",
        file: TRANSITION,
        right: "TaskState::InFlight { deadline, .. } if deadline <= now => {}",
        wrong: "TaskState::InFlight { deadline, .. } if deadline <= now.saturating_add(Duration::from_secs(1)) => {}",
    },
    Planted {
        what: "a heartbeat may shorten the lease",
        file: TRANSITION,
        right: "*deadline = now.saturating_add(lease).max(*deadline);",
        wrong: "*deadline = now.saturating_add(lease);",
    },
    Planted {
        what: "one attempt more than the budget",
        file: TRANSITION,
        right: "    failures >= max_attempts\n",
        wrong: "    failures > max_attempts\n",
    },
    Planted {
        what: "a scheduled task is promoted early",
        file: TRANSITION,
        right: "TaskState::Scheduled { due } if due <= now => {",
        wrong: "TaskState::Scheduled { due } if due <= now.saturating_add(Duration::from_secs(1)) => {",
    },
    Planted {
        what: "a snooze is charged as an attempt",
        file: TRANSITION,
        right: "task.counters.snoozes = task.counters.snoozes.saturating_add(1);\n            uncharge(task);",
        wrong: "task.counters.snoozes = task.counters.snoozes.saturating_add(1);",
    },
    Planted {
        what: "a finished task can be cancelled",
        file: TRANSITION,
        right: "pub(crate) fn cancel(task: &mut Task, now: Timestamp) -> bool {\n    if task.state.finished().is_some() {",
        wrong: "pub(crate) fn cancel(task: &mut Task, now: Timestamp) -> bool {\n    if task.state.finished().is_some() && now.as_micros() == 0 {",
    },
    Planted {
        what: "an unmasked shift in the backoff",
        file: "aedb-queue/src/model/backoff.rs",
        right: "base.checked_shl(doublings).filter(|w| w >> doublings == base).unwrap_or(u64::MAX)",
        wrong: "base.wrapping_shl(doublings)",
    },
    Planted {
        what: "effects are applied before the token is looked at",
        file: "aedb-queue/src/kv/settle.rs",
        right: "    if let Err(loss) = transition::holds(&stored.task, item.token) {\n        return Ok(FencedCommit::LeaseLost(loss));\n    }\n",
        wrong: "",
    },
    Planted {
        what: "a release resets the lease's token",
        file: LEASE,
        right: "        record.owner = None;\n        record.note = None;",
        wrong: "        record.owner = None;\n        record.token = FencingToken::from_u64(0);\n        record.note = None;",
    },
    Planted {
        what: "a guarded commit does not look at the deadline",
        file: LEASE,
        right: "r.owner.as_ref() == Some(&held.owner) && r.until > scope.now))",
        wrong: "r.owner.as_ref() == Some(&held.owner)))",
    },
    Planted {
        what: "a lease is renewed by its owner's name, whatever the token",
        file: LEASE,
        right: "record.filter(|r| r.token == held.token && r.owner",
        wrong: "record.filter(|r| r.owner",
    },
    Planted {
        what: "an index entry stays when its task moves on",
        file: RECORD,
        right: "        if stored.index != index {\n            self.txn.delete(stored.index.clone());\n        }",
        wrong: "        if stored.index != index && stored.kind != StateKind::Scheduled {\n            self.txn.delete(stored.index.clone());\n        }",
    },
    Planted {
        what: "a state's count is not taken back",
        file: RECORD,
        right: "        let task = &stored.task;\n        self.head(queue)?.remove(stored.kind, stored.bytes);",
        wrong: "        let task = &stored.task;\n        if stored.kind != StateKind::InFlight {\n            self.head(queue)?.remove(stored.kind, stored.bytes);\n        }",
    },
    Planted {
        what: "a finished task frees its key at once",
        file: "aedb-queue/src/kv/unique.rs",
        right: "entry.expires = is.map(|at| at.saturating_add(key.window));",
        wrong: "entry.expires = is;",
    },
    Planted {
        what: "a verb that fails leaves what it wrote",
        file: "aedb-queue/src/engine/turn.rs",
        right: "overlay.undo();\n                self.done.push(job);",
        wrong: "overlay.keep();\n                self.done.push(job);",
    },
    Planted {
        what: "a commit that failed is acknowledged",
        file: "aedb-queue/src/engine/disk.rs",
        right: "Ok(true) => txn.commit().map_err(|e| self.fail(ErrorKind::UnknownOutcome, e.into())),",
        wrong: "Ok(true) => {\n                let _ = txn.commit();\n                Ok(())\n            }",
    },
    Planted {
        what: "the lowest priority is served first",
        file: "aedb-queue/src/kv/keys.rs",
        right: "key.extend_from_slice(&(u64::MAX - priority).to_be_bytes());",
        wrong: "key.extend_from_slice(&priority.to_be_bytes());",
    },
    Planted {
        what: "a retry by hand takes a key that another task has",
        file: "aedb-queue/src/kv/retry.rs",
        right: "is_some_and(|entry| entry.id != id)",
        wrong: "is_some_and(|entry| entry.id != id && id.as_u64() == 0)",
    },
    Planted {
        what: "a damaged record is delivered",
        file: "aedb-queue/src/kv/codec.rs",
        right: "        if crc32fast::hash(fields) != u32::from_le_bytes(*sum) {\n            return Err(corrupt(\"the checksum is wrong\"));\n        }\n",
        wrong: "",
    },
    Planted {
        what: "a commit is not synced",
        file: "aedb-queue/src/engine/disk.rs",
        right: "        let txn = self.begin(&db)?;\n        let written",
        wrong: "        let mut txn = self.begin(&db)?;\n        let _ = txn.set_durability(redb::Durability::None);\n        let written",
    },
    Planted {
        what: "an amendment spares a task that has no attempts left",
        file: TRANSITION,
        right: "    if is_spent(task) && !matches!(task.state, TaskState::InFlight { .. }) {",
        wrong: "    if is_spent(task) && now.as_micros() == 0 {",
    },
    Planted {
        what: "a good record is set aside for an index entry that is not its own",
        file: RECORD,
        right: "            Some(_) => self.txn.delete(index.to_vec()),\n            None => self.set_aside",
        wrong: "            _ => self.set_aside",
    },
    Planted {
        what: "an attempt goes on until its lease has ended",
        file: "aedb-worker/src/run/heartbeat.rs",
        right: "        entry.ask(stop.saturating_duration_since(now));",
        wrong: "        let _ = stop;",
    },
    Planted {
        what: "a worker believes that a lease lasts from the answer on",
        file: "aedb-worker/src/run/heartbeat.rs",
        right: "                        entry.extended(sent);",
        wrong: "                        entry.extended(sent.max(monotonic::now()));",
    },
    Planted {
        what: "an outcome whose answer was lost is forgotten",
        file: "aedb-worker/src/run/settle.rs",
        right: "            self.settles.items().splice(..0, self.items.drain(..));",
        wrong: "            self.items.clear();",
    },
    Planted {
        what: "a drain ends when nothing runs, whatever ran before its last claim",
        file: "aedb-worker/src/run/claim.rs",
        right: "                if nothing_ran {",
        wrong: "                if nothing_ran || shared.running.is_empty() {",
    },
];

/// Those that only another order of threads shows: `tests/schedules` looks for them.
pub const PLANTED_IN_SCHEDULES: &[Planted] = &[
    Planted {
        what: "the writer looks away before it goes to sleep",
        file: "aedb-queue/src/engine/threaded.rs",
        right: "            let Some(wait) = self.pause(parked) else {\n",
        wrong: "            let Some(wait) = self.pause(parked) else {\n                drop(inbox);\n                inbox = self.inbox();\n",
    },
    Planted {
        what: "the bell rings before the outcome is there",
        file: "aedb-worker/src/run/settle.rs",
        right: "            self.items().push(Item { entry: Arc::clone(entry), decision });\n            self.bell.notify_one();\n",
        wrong: "            self.bell.notify_one();\n            self.items().push(Item { entry: Arc::clone(entry), decision });\n",
    },
    Planted {
        what: "outcomes that come back ring no bell",
        file: "aedb-worker/src/run/settle.rs",
        right: "            self.settles.items().splice(..0, self.items.drain(..));\n            self.settles.bell.notify_one();\n",
        wrong: "            self.settles.items().splice(..0, self.items.drain(..));\n",
    },
    Planted {
        what: "two may decide an attempt at the same time",
        file: "aedb-worker/src/run/entry.rs",
        right: "        !self.decided.swap(true, Ordering::AcqRel)",
        wrong: "        let first = !self.is_decided();\n        self.decided.store(true, Ordering::Release);\n        first",
    },
];
