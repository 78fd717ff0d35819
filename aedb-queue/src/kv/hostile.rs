//! The readers of stored bytes, for [`crate::hostile`]. A checksum is put behind each input, so that what reads the fields gets to
//! see it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a target reports by panicking")]

use super::codec::{self, Reader, Writer};
use super::head::Head;
use super::{keys, lease, unique};
use crate::model::task::TaskId;
#[cfg(test)]
use crate::model::task::{Body, Counters, Failure, FencingToken, Policy, Task, TaskState, UniqueKey};

/// The input as the fields of a record.
fn sealed(fields: &[u8]) -> Vec<u8> {
    let mut w = Writer::new(fields.len() + 8);
    fields.iter().for_each(|byte| w.byte(*byte));
    w.finish()
}

/// A task's record.
pub(crate) fn record(bytes: &[u8]) {
    let id = TaskId::from_u64(9);
    assert!(codec::decode(id, bytes).is_err() || bytes.len() > 4, "a record without a checksum");
    if let Ok(task) = codec::decode(id, &sealed(bytes)) {
        let again = codec::decode(id, &codec::encode(&task)).unwrap();
        assert_eq!(again, task);
        // What it would be asked for next.
        let _ = (task.expires(), task.discarded());
    }
}

/// A lease's record.
pub(crate) fn lease(bytes: &[u8]) {
    let _ = lease::decode("name", bytes);
    let _ = lease::decode("name", &sealed(bytes));
}

/// The queue's head, an idempotency key's entry, and a long value.
pub(crate) fn small_records(bytes: &[u8]) {
    let sealed = sealed(bytes);
    if let Ok(head) = Head::decode(&sealed) {
        assert_eq!(Head::decode(&head.encode()).unwrap(), head);
    }
    let _ = unique::read_unique(&sealed);
    if let Ok(json) = codec::decode_beside(&sealed) {
        assert_eq!(codec::decode_beside(&codec::encode_beside(&json)).unwrap(), json);
    }
    if let Ok(mut reader) = Reader::new(&sealed) {
        while !reader.is_at_end() {
            let _ = (reader.small(), reader.text());
            let _ = reader.byte();
        }
    }
}

/// The ends of keys, and names that hold whatever keys are made of: two places have two keys.
pub(crate) fn keys(bytes: &[u8]) {
    let _ = (keys::id_of(bytes), keys::instant_of(bytes));
    let text = String::from_utf8_lossy(bytes);
    let (front, back) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let id = TaskId::from_u64(7);
    let of = |project: &str, scope: &str, queue: &str| keys::ScopeKeys::new(project, scope).queue(queue).primary(id);
    let one = of(front, back, "q");
    for other in [of(&text, "", "q"), of("", &text, "q"), of(back, front, "q"), of(front, "", back)] {
        let same = [of(front, back, "q")].contains(&other);
        assert_eq!(one == other, same);
    }
    assert!(front.is_empty() || of(front, back, "q") != of("", &text, "q"), "two scopes have one key");
    assert_eq!(keys::id_of(&one), Some(id));
}

/// Good records to start from, without their version and checksum.
#[cfg(test)]
pub(crate) fn records() -> Vec<Vec<u8>> {
    use std::time::Duration;

    use crate::model::json::Json;
    use crate::time::Timestamp;

    let at = Timestamp::from_micros(1_767_225_600_000_000);
    let state = TaskState::InFlight { owner: "w".into(), deadline: at, claimed: at };
    let states = [state, TaskState::Scheduled { due: at }, TaskState::Done { at }];
    let record = |state| Task {
        id: TaskId::from_u64(9),
        name: "n".into(),
        priority: 3,
        enqueued: at,
        updated: at,
        policy: Policy { max_attempts: 3, ..Policy::default() },
        key: Some(UniqueKey { text: "key".into(), window: Duration::from_secs(5) }),
        metadata: vec![("a".into(), "b".into())],
        counters: Counters { attempts: 1, failures: 1, ..Counters::default() },
        token: FencingToken::from_u64(300),
        state,
        payload: Body::Inline(Json::null()),
        progress: Body::None,
        result: Body::Beside { bytes: 700 },
        failures: vec![Failure { at, attempt: 1, error: "boom".into() }],
    };
    let bytes = |state| {
        let sealed = codec::encode(&record(state));
        sealed[1..sealed.len() - 4].to_vec()
    };
    states.into_iter().map(bytes).collect()
}
