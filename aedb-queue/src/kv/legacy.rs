//! Tasks that AEDB's own queue calls have enqueued: taken over, so that they are worked off like any other.
//!
//! AEDB 0.3 writes a record as JSON text under `p` and its sequence number in twenty digits, with an index entry under `s`, `r` or `f`
//! and, for an idempotency key, one under `k`. A claim and a sweep turn what they find into records of ours first: the id stays
//! the number, and priority, due instant, counters, token, progress and a key that a live task holds stay what they were. A record has no
//! task name there; it gets that of its queue.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::keys::{self, QueueKeys};
use super::record::Slot;
use super::scope::ScopeTxn;
use super::unique::{UniqueEntry, fingerprint};
use crate::engine::View;
use crate::error::Result;
use crate::model::backoff::Backoff;
use crate::model::json::Json;
use crate::model::limits;
use crate::model::task::{
    Body, Counters, DeadReason, Failure, FencingToken, Policy, Task, TaskId, TaskState, UniqueKey,
};
use crate::model::transition::waiting;
use crate::store::UNIQUE_WINDOW;
use crate::time::Timestamp;

/// Digits of a sequence number as AEDB writes it.
const DIGITS: usize = 20;

/// Takes up to `max` tasks over. True if there are no more.
pub(crate) fn adopt(scope: &mut ScopeTxn<'_, '_>, queue: &QueueKeys, max: usize) -> Result<bool> {
    if !scope.txn.is_aedb() {
        return Ok(true);
    }
    let prefix = queue.kind(b'p');
    let (from, until) = ([&prefix[..], b"0"].concat(), [&prefix[..], b":"].concat());
    let (mut found, mut more) = (Vec::new(), false);
    scope.txn.scan(&from, &until, &mut |key, value| {
        let digits = key.strip_prefix(prefix.as_slice()).and_then(number);
        if let (Some(number), Some(b'{')) = (digits, value.first()) {
            more = found.len() == max;
            if more {
                return ControlFlow::Break(());
            }
            found.push((key.to_vec(), number));
        }
        ControlFlow::Continue(())
    })?;
    if found.is_empty() {
        return Ok(true);
    }
    let held = held_keys(scope.txn, queue)?;
    for (key, number) in found {
        // Read by its key, so that the commit fails if AEDB's own calls have changed it meanwhile.
        let Some(bytes) = scope.txn.get(&key)? else { continue };
        let record = Legacy(serde_json::from_slice(&bytes).unwrap_or(Value::Null));
        scope.txn.delete(key);
        if let Some(index) = record.index(queue, number) {
            scope.txn.delete(index);
        }
        take_over(scope, queue, TaskId::from_u64(number), &record, held.get(&number).cloned())?;
    }
    Ok(!more)
}

fn take_over(
    scope: &mut ScopeTxn<'_, '_>,
    queue: &QueueKeys,
    id: TaskId,
    record: &Legacy,
    key: Option<Arc<str>>,
) -> Result<()> {
    let mut task = record.task(id, scope.now);
    let payload = record.json("payload_json").unwrap_or_else(Json::null);
    if let Some(text) = key.filter(|_| task.state.finished().is_none()) {
        let entry = UniqueEntry { id, fingerprint: fingerprint(&task.name, &payload), expires: None };
        scope.put_unique(queue, &text, entry);
        task.key = Some(UniqueKey { text, window: UNIQUE_WINDOW });
    }
    scope.set_body(queue, id, &mut task.payload, Slot::Payload, payload);
    if let Some(progress) = record.json("progress_json") {
        scope.set_body(queue, id, &mut task.progress, Slot::Progress, progress);
    }
    scope.create(queue, &task)
}

/// The idempotency keys that AEDB has written, by the task that has each.
fn held_keys(view: &dyn View, queue: &QueueKeys) -> Result<BTreeMap<u64, Arc<str>>> {
    let (prefix, mut held) = (queue.kind(b'k'), BTreeMap::new());
    view.scan(&prefix, &keys::after(&prefix), &mut |key, value| {
        let text = key.strip_prefix(prefix.as_slice()).and_then(|text| std::str::from_utf8(text).ok());
        if let (Some(number), Some(text)) = (number(value), text.filter(|text| limits::idempotency_key(text).is_ok())) {
            held.insert(number, Arc::from(text));
        }
        ControlFlow::Continue(())
    })?;
    Ok(held)
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.len() == DIGITS)?;
    text.parse().ok()
}

/// A record of AEDB's. One that cannot be read has nothing in it, not even a state.
struct Legacy(Value);

impl Legacy {
    fn number(&self, field: &str) -> u64 {
        self.0.get(field).and_then(Value::as_u64).unwrap_or(0)
    }

    fn count(&self, field: &str) -> u32 {
        u32::try_from(self.number(field)).unwrap_or(u32::MAX)
    }

    fn at(&self, field: &str) -> Timestamp {
        Timestamp::from_micros(self.number(field))
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn json(&self, field: &str) -> Option<Json> {
        self.text(field).and_then(|text| Json::parse(text).ok())
    }

    /// Its entry in AEDB's index, if it has one.
    fn index(&self, queue: &QueueKeys, number: u64) -> Option<Vec<u8>> {
        let in_ready = self.0.get("in_ready").and_then(Value::as_bool).unwrap_or(false);
        self.0.as_object()?;
        let (kind, order) = match self.number("state") {
            0 if in_ready => (b'r', u64::MAX - self.number("priority")),
            0 => (b's', self.number("not_before_micros")),
            1 => (b'f', self.number("lease_deadline_micros")),
            _ => return None,
        };
        let (seq, id) = (self.number("seq"), format!("{number:020}"));
        Some([&queue.kind(kind), &order.to_be_bytes()[..], &seq.to_be_bytes(), id.as_bytes()].concat())
    }

    fn task(&self, id: TaskId, now: Timestamp) -> Task {
        let state = if self.0.is_object() { self.number("state") } else { u64::MAX };
        let attempts = self.count("attempts");
        let updated = self.at("updated_micros");
        // AEDB counts an attempt when it begins.
        let ended = if state == 1 { attempts.saturating_sub(1) } else { attempts };
        let or = |field, default: u64| Some(self.number(field)).filter(|number| *number > 0).unwrap_or(default);
        let micros = |field, default| Duration::from_micros(or(field, default));
        let backoff =
            Backoff::exponential(micros("backoff_base_micros", 1_000_000), micros("backoff_max_micros", 60_000_000));
        let max_attempts = u32::try_from(or("max_attempts", 5)).unwrap_or(u32::MAX);
        let error = self.text("last_error").map(|error| Failure {
            at: updated,
            attempt: ended,
            error: limits::error_text(error).into(),
        });
        let state = match state {
            0 => waiting(self.at("not_before_micros"), now),
            1 => TaskState::InFlight {
                owner: self.text("owner_id").unwrap_or("aedb").into(),
                deadline: self.at("lease_deadline_micros"),
                claimed: updated,
            },
            2 => TaskState::Dead { at: updated, reason: DeadReason::AttemptsSpent },
            _ => TaskState::Dead { at: now, reason: DeadReason::Damaged },
        };
        Task {
            id,
            name: self.text("queue").unwrap_or("damaged").into(),
            priority: self.number("priority"),
            enqueued: self.at("created_micros"),
            updated,
            policy: Policy { max_attempts, backoff, ..Policy::default() },
            key: None,
            metadata: Vec::new(),
            counters: Counters { attempts, failures: ended, deliveries: attempts, ..Counters::default() },
            token: FencingToken::from_u64(self.number("fencing_token")),
            state,
            payload: Body::None,
            progress: Body::None,
            result: Body::None,
            failures: error.into_iter().collect(),
        }
    }
}
