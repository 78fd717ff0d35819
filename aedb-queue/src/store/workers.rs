//! Live workers: who has announced itself in a scope, by holding a lease whose name begins with `worker:`.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::error::Result;
use crate::model::json::Json;
use crate::time::Timestamp;

/// A worker whose announcement has not run out.
///
/// A worker announces itself by acquiring the lease [`LiveWorker::PREFIX`] + identity with a [`LiveWorker::note`], and
/// renewing it while it lives. Nothing makes it do so: tasks that are claimed by hand need no announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveWorker {
    /// Who it is: its lease's name without the prefix.
    pub identity: Arc<str>,
    /// The machine it runs on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// The queues that it claims from.
    pub queues: Vec<String>,
    /// The task names that it knows.
    pub names: Vec<String>,
    /// When the announcement runs out unless renewed.
    pub until: Timestamp,
}

impl LiveWorker {
    /// What the lease names of workers begin with. Such a lease is forgotten a day after it ran out or was released.
    pub const PREFIX: &str = "worker:";

    /// The note by which a worker announces itself: `{"host":..,"pid":..,"queues":[..],"names":[..]}`.
    ///
    /// # Errors
    ///
    /// None in practice: texts and numbers can always be written as JSON. The acquire refuses notes over 64 KiB.
    pub fn note<T: Serialize>(host: &str, pid: u32, queues: &[T], names: &[T]) -> Result<Json> {
        Json::of(&serde_json::json!({ "host": host, "pid": pid, "queues": queues, "names": names }))
    }

    /// What a note says. A part that is missing or of another kind counts as empty.
    pub(crate) fn read(identity: &str, until: Timestamp, note: Option<&Json>) -> Self {
        let note: Value = note.and_then(|note| note.to().ok()).unwrap_or_default();
        let texts = |part: &str| {
            let texts = note.get(part).and_then(Value::as_array).into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            identity: identity.into(),
            host: note.get("host").and_then(Value::as_str).unwrap_or_default().to_owned(),
            pid: note.get("pid").and_then(Value::as_u64).and_then(|pid| pid.try_into().ok()).unwrap_or_default(),
            queues: texts("queues"),
            names: texts("names"),
            until,
        }
    }

    /// Whether it claims tasks of this name from this queue.
    pub fn knows(&self, queue: &str, name: &str) -> bool {
        self.queues.iter().any(|own| own == queue) && self.names.iter().any(|own| own == name)
    }
}
