//! Versions of inputs: which form a task's payload has.
//!
//! A task tells the version that it was enqueued with in its metadata, which never changes. When a task of an older version
//! [continues](crate::Outcome::continue_with), its new payload has today's form, so it tells that itself, in an envelope:
//! `{"aedb.version":2,"input":...}`. Payloads are kept to the byte, so the envelope is found by its text.

use std::time::Duration;

use aedb_queue::{Json, Result};

use crate::context::TaskContext;

/// The metadata name of the version.
pub(crate) const NAME: &str = "aedb.version";

/// How long a task of a version that is not known yet waits for a worker that knows it.
pub(crate) const WAIT: Duration = Duration::from_secs(30);

const OPEN: &str = "{\"aedb.version\":";
const INPUT: &str = ",\"input\":";

/// The version of a task's payload.
pub(crate) fn of(cx: &TaskContext) -> u32 {
    opened(cx.task().payload.as_str()).map_or_else(|| enqueued(cx), |(version, _)| version)
}

/// The version that a task was enqueued with; 1 if it tells none.
pub(crate) fn enqueued(cx: &TaskContext) -> u32 {
    cx.metadata(NAME).and_then(|version| version.parse().ok()).unwrap_or(1)
}

/// A payload that tells its version.
pub(crate) fn enveloped(version: u32, payload: &Json) -> Result<Json> {
    Json::parse(format!("{OPEN}{version}{INPUT}{payload}}}"))
}

/// The payload without its envelope.
pub(crate) fn input(payload: &Json) -> Result<Json> {
    opened(payload.as_str()).map_or_else(|| Ok(payload.clone()), |(_, input)| Json::parse(input))
}

fn opened(text: &str) -> Option<(u32, &str)> {
    let (version, input) = text.strip_prefix(OPEN)?.split_once(INPUT)?;
    Some((version.parse().ok()?, input.strip_suffix('}')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_gives_its_payload_back_and_other_payloads_are_left_alone() {
        for text in ["7", "{}", r#"{"input":{"a":"}"}}"#, r#"{"aedb.version":"x","input":1}"#] {
            let payload = Json::parse(text).unwrap();
            assert_eq!(input(&payload).unwrap(), payload);
            assert_eq!(opened(enveloped(3, &payload).unwrap().as_str()), Some((3, text)));
        }
    }
}
