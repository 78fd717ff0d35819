//! Where a key lies in AEDB, and what AEDB takes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use aedb::catalog::DdlOperation;
use aedb::commit::validation::Mutation;
use aedb::permission::Permission;

use super::Aedb;
use crate::engine::Size;
use crate::error::{Error, Result};

/// The limits of an AEDB instance, by default those of its default settings. AEDB does not tell them, so an application that has
/// set others says them here; a call that is over one is refused before AEDB sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AedbLimits {
    /// `max_mutations_per_envelope`.
    pub mutations: usize,
    /// `max_read_assertions_per_envelope`.
    pub assertions: usize,
    /// `max_transaction_bytes`.
    pub transaction_bytes: usize,
    /// `max_kv_key_bytes`.
    pub key_bytes: usize,
    /// `max_kv_value_bytes`.
    pub value_bytes: usize,
    /// `max_scan_rows`.
    pub scan_rows: usize,
    /// `persistent_value_inline_threshold_bytes`.
    pub inline_bytes: usize,
}

impl Default for AedbLimits {
    fn default() -> Self {
        Self {
            mutations: 16_384,
            assertions: 32_768,
            transaction_bytes: 16 << 20,
            key_bytes: 1024,
            value_bytes: 1 << 20,
            scan_rows: 10_000,
            inline_bytes: 64 << 10,
        }
    }
}

/// Bytes of a mutation that are neither key nor value: its names, lengths and tags.
const OVERHEAD: usize = 128;

impl AedbLimits {
    pub(super) fn fits(&self, size: Size) -> Result<()> {
        let limits = [
            ("changes in an AEDB commit", self.mutations, size.changes),
            ("key bytes in AEDB", self.key_bytes, size.key),
            ("value bytes in AEDB", self.value_bytes, size.value),
            // Half of it: the versions that are asserted go along.
            ("bytes of an AEDB commit", self.transaction_bytes / 2, size.bytes + OVERHEAD * size.changes),
        ];
        for (name, max, actual) in limits {
            if actual > max {
                return Err(Error::too_large(name, max as u64, actual as u64));
            }
        }
        Ok(())
    }
}

/// A key of ours as AEDB sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) project: &'a str,
    pub(super) scope: &'a str,
    pub(super) key: &'a [u8],
}

/// Takes a key of the engine apart. `None` for keys outside of all scopes: grants and the token floor, which AEDB keeps by itself or
/// does not have.
pub(super) fn spot(key: &[u8]) -> Option<Spot<'_>> {
    let (project, rest) = name(key)?;
    let (scope, key) = name(rest)?;
    Some(Spot { project, scope, key })
}

fn name(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.split_first()?;
    if *len == 0 {
        return None;
    }
    let (name, rest) = rest.split_at_checked(usize::from(*len))?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

/// A key of a scope that is never written.
pub(super) const NEVER: &[u8] = b"\x00aedb:queue:\x00\x00-";

/// Scopes that are known to exist, and to be readable.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeSet<(String, String)>>);

impl Aedb {
    /// Makes a scope ready on an instance without callers: it is created, and the engine's own name may read it. Where AEDB requires
    /// callers, both are for the application to do.
    pub(super) fn ready(&self, at: Spot<'_>) -> Result<()> {
        let mut known = self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (at.project.to_owned(), at.scope.to_owned());
        if !self.anonymous || known.contains(&name) {
            return Ok(());
        }
        let grant = DdlOperation::GrantPermission {
            actor_id: None,
            delegable: false,
            caller_id: self.own.caller_id.clone(),
            permission: Permission::KvRead { project_id: name.0.clone(), scope_id: Some(name.1.clone()), prefix: None },
        };
        let made = self.runner.wait(async {
            self.instance.create_project(&name.0).await?;
            self.instance.create_scope(&name.0, &name.1).await?;
            self.instance.commit(Mutation::Ddl(grant)).await
        });
        made.map_err(super::commit::told)?;
        known.insert(name);
        Ok(())
    }
}
