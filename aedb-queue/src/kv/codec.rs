//! Records as bytes: a version byte, the fields, and a checksum over both.
//!
//! Numbers are LEB128; texts have their length before them. A record whose checksum or form is wrong is
//! [`ErrorKind::Corrupt`] and never taken for a good one. Old versions stay readable for ever.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::model::backoff::Backoff;
use crate::model::json::Json;
use crate::model::task::{
    Body, Counters, DeadReason, Failure, FencingToken, Policy, Task, TaskId, TaskState, UniqueKey,
};
use crate::time::{Timestamp, micros};

const VERSION: u8 = 1;
const HAS_POLICY: u8 = 1;
const HAS_KEY: u8 = 2;
const HAS_METADATA: u8 = 4;
const HAS_FAILURES: u8 = 8;

/// Appends fields to a record.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(VERSION);
        Self(bytes)
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            // Masked to seven bits, so the conversion is exact.
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(crate) fn instant(&mut self, at: Timestamp) {
        self.number(at.as_micros());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let sum = crc32fast::hash(&self.0);
        self.0.extend_from_slice(&sum.to_le_bytes());
        self.0
    }
}

/// Takes fields from a record whose checksum was right.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let (fields, sum) = bytes.split_last_chunk::<4>().ok_or_else(|| corrupt("too short"))?;
        if crc32fast::hash(fields) != u32::from_le_bytes(*sum) {
            return Err(corrupt("the checksum is wrong"));
        }
        match fields.split_first() {
            Some((&VERSION, fields)) => Ok(Self(fields)),
            _ => Err(corrupt("the version is unknown")),
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.0.split_first().ok_or_else(|| corrupt("it ends early"))?;
        self.0 = rest;
        Ok(*byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(corrupt("a number is too long"))
    }

    pub(crate) fn small(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| corrupt("a number is too large"))
    }

    pub(crate) fn instant(&mut self) -> Result<Timestamp> {
        self.number().map(Timestamp::from_micros)
    }

    pub(crate) fn duration(&mut self) -> Result<Duration> {
        self.number().map(Duration::from_micros)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let len = usize::try_from(self.number()?).map_err(|_| corrupt("a length is too large"))?;
        let (text, rest) = self.0.split_at_checked(len).ok_or_else(|| corrupt("it ends early"))?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| corrupt("a text is not UTF-8"))
    }
}

pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a stored record is damaged: {what}"))
}

/// A key is listed and not found: no repair of records can help.
pub(crate) fn hidden(key: &[u8]) -> Error {
    let message = format!(
        "the file's own structure is damaged: the entry {} is listed and cannot be found; restore a backup",
        key.escape_ascii()
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// The bytes of a task's record. The id is in the key.
pub(crate) fn encode(task: &Task) -> Vec<u8> {
    let inline = |body: &Body| if let Body::Inline(json) = body { json.as_str().len() } else { 0 };
    let mut w =
        Writer::new(96 + task.name.len() + inline(&task.payload) + inline(&task.progress) + inline(&task.result));
    let default_policy = task.policy == Policy::default();
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    w.byte(
        flag(!default_policy, HAS_POLICY)
            | flag(task.key.is_some(), HAS_KEY)
            | flag(!task.metadata.is_empty(), HAS_METADATA)
            | flag(!task.failures.is_empty(), HAS_FAILURES),
    );
    state(&mut w, &task.state);
    w.text(&task.name);
    w.number(task.priority);
    w.instant(task.enqueued);
    w.instant(task.updated);
    w.number(task.token.as_u64());
    let c = &task.counters;
    [c.attempts, c.failures, c.deliveries, c.lost_leases, c.snoozes].into_iter().for_each(|n| w.number(n.into()));
    [&task.payload, &task.progress, &task.result].into_iter().for_each(|body| write_body(&mut w, body));
    if !default_policy {
        let p = &task.policy;
        w.number(p.max_attempts.into());
        w.number(p.max_lost_leases.into());
        [p.backoff.base(), p.backoff.cap(), p.keep_done, p.keep_dead].into_iter().for_each(|d| w.number(micros(d)));
        w.byte(p.backoff.jitter_percent());
    }
    if let Some(key) = &task.key {
        w.text(&key.text);
        w.number(micros(key.window));
    }
    if !task.metadata.is_empty() {
        w.number(task.metadata.len() as u64);
        for (name, value) in &task.metadata {
            w.text(name);
            w.text(value);
        }
    }
    if !task.failures.is_empty() {
        w.number(task.failures.len() as u64);
        for failure in &task.failures {
            w.instant(failure.at);
            w.number(failure.attempt.into());
            w.text(&failure.error);
        }
    }
    w.finish()
}

/// A task's record from its bytes.
pub(crate) fn decode(id: TaskId, bytes: &[u8]) -> Result<Task> {
    let mut r = Reader::new(bytes)?;
    let flags = r.byte()?;
    let has = |flag: u8| flags & flag != 0;
    let state = read_state(&mut r)?;
    let name = r.text()?.into();
    let (priority, enqueued, updated) = (r.number()?, r.instant()?, r.instant()?);
    let token = FencingToken::from_u64(r.number()?);
    let counters = Counters {
        attempts: r.small()?,
        failures: r.small()?,
        deliveries: r.small()?,
        lost_leases: r.small()?,
        snoozes: r.small()?,
    };
    let (payload, progress, result) = (read_body(&mut r)?, read_body(&mut r)?, read_body(&mut r)?);
    let policy = if has(HAS_POLICY) { read_policy(&mut r)? } else { Policy::default() };
    let key = if has(HAS_KEY) { Some(UniqueKey { text: r.text()?.into(), window: r.duration()? }) } else { None };
    let metadata = list(&mut r, has(HAS_METADATA), |r| Ok((Arc::from(r.text()?), Arc::from(r.text()?))))?;
    let failures = list(&mut r, has(HAS_FAILURES), |r| {
        Ok(Failure { at: r.instant()?, attempt: r.small()?, error: r.text()?.into() })
    })?;
    Ok(Task {
        id,
        name,
        priority,
        enqueued,
        updated,
        policy,
        key,
        metadata,
        counters,
        token,
        state,
        payload,
        progress,
        result,
        failures,
    })
}

/// A list of as many items as it says, read one by one: a wrong count cannot make it allocate.
fn list<T>(r: &mut Reader<'_>, present: bool, item: impl Fn(&mut Reader<'_>) -> Result<T>) -> Result<Vec<T>> {
    let count = if present { r.number()? } else { 0 };
    (0..count).map(|_| item(r)).collect()
}

fn read_policy(r: &mut Reader<'_>) -> Result<Policy> {
    let (max_attempts, max_lost_leases) = (r.small()?, r.small()?);
    let (base, cap, keep_done, keep_dead) = (r.duration()?, r.duration()?, r.duration()?, r.duration()?);
    let backoff = Backoff::exponential(base, cap).jitter(r.byte()?);
    Ok(Policy { max_attempts, max_lost_leases, backoff, keep_done, keep_dead })
}

fn state(w: &mut Writer, state: &TaskState) {
    match state {
        TaskState::Scheduled { due } => timed(w, 0, *due),
        TaskState::Ready { since } => timed(w, 1, *since),
        TaskState::InFlight { owner, deadline, claimed } => {
            timed(w, 2, *deadline);
            w.instant(*claimed);
            w.text(owner);
        }
        TaskState::Done { at } => timed(w, 3, *at),
        TaskState::Dead { at, reason } => {
            timed(w, 4, *at);
            w.byte(match reason {
                DeadReason::AttemptsSpent => 0,
                DeadReason::Fatal => 1,
                DeadReason::LeasesLost => 2,
                DeadReason::Damaged => 3,
            });
        }
        TaskState::Cancelled { at } => timed(w, 5, *at),
    }
}

fn timed(w: &mut Writer, tag: u8, at: Timestamp) {
    w.byte(tag);
    w.instant(at);
}

fn read_state(r: &mut Reader<'_>) -> Result<TaskState> {
    let (tag, at) = (r.byte()?, r.instant()?);
    Ok(match tag {
        0 => TaskState::Scheduled { due: at },
        1 => TaskState::Ready { since: at },
        2 => {
            let claimed = r.instant()?;
            TaskState::InFlight { owner: r.text()?.into(), deadline: at, claimed }
        }
        3 => TaskState::Done { at },
        4 => TaskState::Dead {
            at,
            reason: match r.byte()? {
                0 => DeadReason::AttemptsSpent,
                1 => DeadReason::Fatal,
                2 => DeadReason::LeasesLost,
                3 => DeadReason::Damaged,
                _ => return Err(corrupt("a reason is unknown")),
            },
        },
        5 => TaskState::Cancelled { at },
        _ => return Err(corrupt("the state is unknown")),
    })
}

fn write_body(w: &mut Writer, body: &Body) {
    match body {
        Body::None => w.byte(0),
        Body::Inline(json) => {
            w.byte(1);
            w.text(json.as_str());
        }
        Body::Beside { bytes } => {
            w.byte(2);
            w.number((*bytes).into());
        }
    }
}

fn read_body(r: &mut Reader<'_>) -> Result<Body> {
    Ok(match r.byte()? {
        0 => Body::None,
        1 => Body::Inline(Json::trusted(r.text()?)),
        2 => Body::Beside { bytes: r.small()? },
        _ => return Err(corrupt("a body is of an unknown kind")),
    })
}

/// A long value that lies beside its record.
pub(crate) fn encode_beside(json: &Json) -> Vec<u8> {
    let mut w = Writer::new(json.as_str().len() + 16);
    w.text(json.as_str());
    w.finish()
}

/// The long value back.
pub(crate) fn decode_beside(bytes: &[u8]) -> Result<Json> {
    Ok(Json::trusted(Reader::new(bytes)?.text()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Task {
        Task {
            id: TaskId::from_u64(9),
            name: "n".into(),
            priority: u64::MAX,
            enqueued: Timestamp::from_micros(1),
            updated: Timestamp::MAX,
            policy: Policy { max_attempts: 3, ..Policy::default() },
            key: Some(UniqueKey { text: "🐓".into(), window: Duration::from_secs(5) }),
            metadata: vec![("a".into(), "b".into())],
            counters: Counters { attempts: u32::MAX, failures: 1, ..Counters::default() },
            token: FencingToken::from_u64(u64::MAX),
            state: TaskState::InFlight {
                owner: "w".into(),
                deadline: Timestamp::from_micros(5),
                claimed: Timestamp::from_micros(4),
            },
            payload: Body::Inline(Json::null()),
            progress: Body::None,
            result: Body::Beside { bytes: 700 },
            failures: vec![Failure { at: Timestamp::from_micros(3), attempt: 1, error: "boom".into() }],
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let mut task = full();
        let at = Timestamp::from_micros(77);
        let states = [
            task.state.clone(),
            TaskState::Scheduled { due: at },
            TaskState::Ready { since: at },
            TaskState::Done { at },
            TaskState::Dead { at, reason: DeadReason::Damaged },
            TaskState::Cancelled { at },
        ];
        for state in states {
            task.state = state;
            assert_eq!(decode(task.id, &encode(&task)).unwrap(), task);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let bytes = encode(&full());
        for i in 0..bytes.len() {
            assert!(decode(TaskId::from_u64(9), &bytes[..i]).is_err());
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[i] ^= 1 << bit;
                assert_eq!(decode(TaskId::from_u64(9), &damaged).map_err(|e| e.kind()), Err(ErrorKind::Corrupt));
            }
        }
    }

    #[test]
    fn a_hostile_record_with_a_right_checksum_neither_panics_nor_allocates() {
        for seed in 0..20_000_u64 {
            let mut bytes = encode(&full());
            let body = bytes.len() - 4;
            let at = usize::try_from(seed).unwrap() % (body - 1) + 1;
            bytes[at] = (seed / 7 % 256) as u8;
            let sum = crc32fast::hash(&bytes[..body]);
            bytes[body..].copy_from_slice(&sum.to_le_bytes());
            let _ = decode(TaskId::from_u64(9), &bytes);
        }
    }
}
