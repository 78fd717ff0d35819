//! Reads of a batch or a call, all of one state: batches of ours wait meanwhile, and what others change is found by its version.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

use aedb::commit::tx::ReadAssertion;
use aedb::commit::validation::Mutation;
use aedb::permission::CallerContext;
use aedb::preflight::PreflightResult;
use aedb::query::error::QueryError;
use aedb::query::plan::ConsistencyMode;

use super::place::{Spot, spot};
use super::{Aedb, commit, denied};
use crate::engine::{View, Visit};
use crate::error::{Error, ErrorKind, Result};

/// The first page of a scan; each further one is four times as long.
const PAGE: usize = 64;

/// The versions that a batch has read; `None` for keys that were not there.
pub(super) type Reads = BTreeMap<Vec<u8>, Option<u64>>;

pub(super) struct Look<'a> {
    pub(super) aedb: &'a Aedb,
    /// Where versions are noted; not for reads that commit nothing.
    pub(super) reads: Option<RefCell<Reads>>,
}

impl Look<'_> {
    fn note(&self, key: &[u8], version: Option<u64>) {
        if let Some(reads) = &self.reads {
            reads.borrow_mut().entry(key.to_vec()).or_insert(version);
        }
    }
}

impl View for Look<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(at) = spot(key) else { return Ok(None) };
        self.aedb.ready(at)?;
        let Aedb { instance, own, runner, .. } = self.aedb;
        let entry = runner
            .wait(instance.kv_get(at.project, at.scope, at.key, ConsistencyMode::AtLatest, own))
            .map_err(refused)?;
        self.note(key, entry.as_ref().map(|entry| entry.version));
        Ok(entry.map(|entry| entry.value))
    }

    fn scan(&self, from: &[u8], until: &[u8], visit: Visit<'_>) -> Result<()> {
        let Some(at) = spot(from) else { return Ok(()) };
        self.aedb.ready(at)?;
        let Aedb { instance, own, runner, limits, .. } = self.aedb;
        let base = from.get(..from.len() - at.key.len()).unwrap_or_default();
        let end = until.strip_prefix(base).map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec()));
        let (mut start, mut page, mut key) = (Bound::Included(at.key.to_vec()), PAGE, base.to_vec());
        loop {
            let rows = page.min(limits.scan_rows) as u64;
            let (lower, upper) = (start.clone(), end.clone());
            let found = runner
                .wait(instance.kv_scan_range(
                    at.project,
                    at.scope,
                    lower,
                    upper,
                    rows,
                    None,
                    ConsistencyMode::AtLatest,
                    own,
                ))
                .map_err(refused)?;
            for (rest, entry) in &found.entries {
                key.truncate(base.len());
                key.extend_from_slice(rest);
                if visit(&key, &entry.value).is_break() {
                    return Ok(());
                }
            }
            match found.entries.last() {
                Some((last, _)) if found.truncated => start = Bound::Excluded(last.clone()),
                _ => return Ok(()),
            }
            page = page.saturating_mul(4);
        }
    }

    fn admits(&self, caller: &str, key: &[u8], writes: bool) -> Option<Result<()>> {
        let at = spot(key)?;
        Some(self.aedb.ready(at).and_then(|()| self.aedb.admits(caller, at, writes)))
    }

    fn is_aedb(&self) -> bool {
        true
    }

    fn most_changes(&self) -> usize {
        self.aedb.limits.mutations
    }
}

impl Aedb {
    /// Asks AEDB whether a caller may read or write a key.
    fn admits(&self, caller: &str, at: Spot<'_>, writes: bool) -> Result<()> {
        let caller = CallerContext::new(caller);
        if !writes {
            let read = self.instance.kv_get(at.project, at.scope, at.key, ConsistencyMode::AtLatest, &caller);
            return self.runner.wait(read).map(drop).map_err(refused);
        }
        let would =
            Mutation::KvDel { project_id: at.project.to_owned(), scope_id: at.scope.to_owned(), key: at.key.to_vec() };
        match self.runner.wait(self.instance.preflight_as(&caller, would)).map_err(commit::told)? {
            PreflightResult::Ok { .. } => Ok(()),
            PreflightResult::Err { reason } => Err(Error::invalid(format!("AEDB refuses it: {reason}"))),
        }
    }
}

/// The versions as AEDB checks them.
pub(super) fn assertions(reads: Reads) -> Vec<ReadAssertion> {
    let asserted = reads.into_iter().filter_map(|(key, version)| {
        let Spot { project, scope, key } = spot(&key)?;
        let (project_id, scope_id, key) = (project.to_owned(), scope.to_owned(), key.to_vec());
        Some(match version {
            Some(expected_seq) => ReadAssertion::KeyVersion { project_id, scope_id, key, expected_seq },
            None => ReadAssertion::KeyExists { project_id, scope_id, key, expected: false },
        })
    });
    asserted.collect()
}

fn refused(error: QueryError) -> Error {
    match &error {
        QueryError::PermissionDenied { permission, scope } => {
            denied(format!("AEDB does not let {scope} read here: it has no {permission}"))
        }
        _ => Error::new(ErrorKind::Unavailable, format!("AEDB could not read: {error}")).caused_by(error),
    }
}
