//! One batch, one envelope: sent, and sent again under the same idempotency key where no answer came.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::PoisonError;
use std::time::Duration;

use aedb::CommitFinality;
use aedb::commit::tx::{IdempotencyKey, ReadSet, TransactionEnvelope, WriteClass, WriteIntent};
use aedb::commit::validation::Mutation;
use aedb::error::AedbError;
use aedb::permission::CallerContext;
use aedb::query::plan::ConsistencyMode;

use super::Aedb;
use super::place::{NEVER, spot};
use super::view::{Reads, assertions};
use crate::engine::{CommitError, Overlay};
use crate::error::{Error, ErrorKind};

/// How often an envelope is sent that AEDB has no room for, or gave no answer to.
const SENDS: u32 = 6;
/// Marks that are kept for the feed.
const REMEMBERED: usize = 64;
/// The pause before the second; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(5);

impl Aedb {
    /// Commits a batch's changes, if all it has read is as it was. `number` is that of the commit.
    pub(super) fn commit(
        &self,
        caller: Option<&str>,
        number: u64,
        reads: Reads,
        batch: &Overlay,
    ) -> Result<(), CommitError> {
        let mut last = None;
        for at in batch.changes().keys().filter_map(|key| spot(key)) {
            if last != Some((at.project, at.scope)) {
                self.ready(at)?;
                last = Some((at.project, at.scope));
            }
        }
        let mut mutations: Vec<Mutation> = batch
            .changes()
            .iter()
            .filter_map(|(key, change)| {
                let at = spot(key)?;
                let (project_id, scope_id, key) = (at.project.to_owned(), at.scope.to_owned(), at.key.to_vec());
                Some(match change {
                    Some(value) => Mutation::KvSet { project_id, scope_id, key, value: value.clone() },
                    None => Mutation::KvDel { project_id, scope_id, key },
                })
            })
            .collect();
        mutations.extend(batch.natives().iter().filter_map(|write| write.of::<Mutation>().cloned()));
        if mutations.is_empty() {
            return Ok(());
        }
        self.unmix(&mut mutations);
        let caller = match caller {
            Some(caller) => Some(CallerContext::new(caller)),
            None if self.anonymous => None,
            None => Some(self.own.clone()),
        };
        let head = self.instance.snapshot_probe(ConsistencyMode::AtLatest);
        let base_seq = self.runner.wait(head).map_err(told)?;
        let key = (u128::from(self.origin) << 64) | u128::from(number);
        let envelope = TransactionEnvelope {
            caller,
            idempotency_key: Some(IdempotencyKey(key.to_be_bytes())),
            write_class: WriteClass::Standard,
            assertions: assertions(reads),
            read_set: ReadSet::default(),
            write_intent: WriteIntent { mutations },
            base_seq,
        };
        {
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            sent.truncate(REMEMBERED);
            sent.push_front(mark(&envelope.write_intent.mutations));
        }
        self.send(&envelope)
    }

    /// AEDB 0.3.1 confuses long values with those between if an envelope writes values and deletes nothing. So it deletes
    /// something, which is not there.
    fn unmix(&self, mutations: &mut Vec<Mutation>) {
        let long = |mutation: &Mutation| matches!(mutation, Mutation::KvSet { value, .. } if value.len() > self.limits.inline_bytes);
        if mutations.len() > 1
            && mutations.iter().any(long)
            && let Some(Mutation::KvSet { project_id, scope_id, .. }) = mutations.first().cloned()
        {
            mutations.push(Mutation::KvDel { project_id, scope_id, key: NEVER.to_vec() });
        }
    }

    fn send(&self, envelope: &TransactionEnvelope) -> Result<(), CommitError> {
        // Until an answer is missing, a refusal means that nothing was applied. From then on only the answer to the key tells.
        let (mut unanswered, mut sends) = (false, 0);
        loop {
            sends += 1;
            let sent = self.instance.commit_envelope_with_finality(envelope.clone(), CommitFinality::Durable);
            let error = match self.runner.wait(sent) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            let again = match fate(&error) {
                Fate::Refused => false,
                Fate::Full => true,
                Fate::Unknown => {
                    unanswered = true;
                    true
                }
            };
            if again && sends < SENDS {
                self.runner.pause(PAUSE * 2_u32.pow(sends - 1));
                continue;
            }
            if unanswered && !matches!(fate(&error), Fate::Refused) {
                let message = format!("AEDB gave no answer to a commit: {error}; it may or may not have happened");
                return Err(CommitError { kind: ErrorKind::UnknownOutcome, message });
            }
            return Err(told(error).into());
        }
    }
}

/// What tells our own commits in the feed. Two alike cost a look too few, which the poll makes up for.
pub(super) fn mark(mutations: &[Mutation]) -> u64 {
    let mut hash = DefaultHasher::new();
    mutations.len().hash(&mut hash);
    if let Some(Mutation::KvSet { key, value, .. }) = mutations.first() {
        (key, value).hash(&mut hash);
    } else if let Some(Mutation::KvDel { key, .. }) = mutations.first() {
        key.hash(&mut hash);
    }
    hash.finish()
}

/// What an error says of the commit.
enum Fate {
    /// It did not happen, and sending it again cannot help.
    Refused,
    /// It did not happen; there may be room later.
    Full,
    /// It may have happened, or happen yet.
    Unknown,
}

fn fate(error: &AedbError) -> Fate {
    match error {
        AedbError::QueueFull | AedbError::PartitionLockTimeout | AedbError::SnapshotExpired => Fate::Full,
        AedbError::Timeout
        | AedbError::EpochApplyTimeout
        | AedbError::ParallelApplyCancelled
        | AedbError::ParallelApplyWorkerPanicked
        | AedbError::Io(_)
        | AedbError::Unavailable { .. } => Fate::Unknown,
        // Its executor has gone; what became of the envelope is not known.
        AedbError::Validation(message) if message.starts_with("commit ") && message.contains("closed") => Fate::Unknown,
        _ => Fate::Refused,
    }
}

/// An error of AEDB as ours.
pub(super) fn told(error: AedbError) -> Error {
    let kind = match &error {
        AedbError::Conflict(_) | AedbError::AssertionFailed { .. } => ErrorKind::Conflict,
        AedbError::PermissionDenied(_) => ErrorKind::PermissionDenied,
        AedbError::NotFound { .. } => ErrorKind::NotFound,
        AedbError::Io(_)
        | AedbError::Unavailable { .. }
        | AedbError::CheckpointInProgress
        | AedbError::QueueFull
        | AedbError::Timeout
        | AedbError::PartitionLockTimeout
        | AedbError::EpochApplyTimeout
        | AedbError::ParallelApplyCancelled
        | AedbError::ParallelApplyWorkerPanicked
        | AedbError::SnapshotExpired => ErrorKind::Unavailable,
        AedbError::Decode(_) | AedbError::IntegrityError { .. } | AedbError::RecoveryIntegrity { .. } => {
            ErrorKind::Corrupt
        }
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, format!("AEDB: {error}")).caused_by(error)
}
