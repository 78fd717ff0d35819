//! Attaching to an AEDB instance (feature `aedb`).

use std::sync::Arc;

use ::aedb::AedbInstance;
use ::aedb::commit::validation::Mutation;

use super::{Db, DbBuilder};
use crate::clock::SystemClock;
use crate::engine::aedb::{AedbLimits, attach};
use crate::engine::{NativeWrite, Threaded};
use crate::error::Result;
use crate::kv::KvStore;
use crate::store::{Effect, Effects};

impl Db {
    /// A database inside of an AEDB instance that the application has open: a scope is AEDB's project and scope, and lives among its
    /// other data. Reads and commits go through the instance; when the last clone is dropped, the instance stays open.
    ///
    /// Call it within the multi-thread tokio runtime that the instance was opened in. On an instance that was opened with
    /// `open_anonymous`, scopes are created as they are used. One that requires callers needs [`DbBuilder::aedb_caller`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) outside of such a runtime.
    pub fn aedb(instance: Arc<AedbInstance>) -> Result<Self> {
        Self::builder().aedb(instance)
    }
}

impl Effects {
    /// Adds one of AEDB's own mutations: a row, a counter, an event. It is applied by the same envelope, behind our writes, and needs the
    /// permissions that AEDB asks of the caller. If AEDB refuses it, nothing of the call is applied.
    ///
    /// Only for a database inside of AEDB; elsewhere the call answers [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    #[must_use]
    pub fn aedb(self, mutation: Mutation) -> Self {
        self.with(Effect::Native(NativeWrite::new(mutation)))
    }
}

impl DbBuilder {
    /// The caller that the queue reads as inside of AEDB, and writes as where a call names none. It needs `KvRead` and `KvWrite` for the
    /// scopes that are used. Without it the instance must be one that was opened with `open_anonymous`.
    #[must_use]
    pub fn aedb_caller(mut self, caller: impl Into<String>) -> Self {
        self.aedb.caller = Some(caller.into());
        self
    }

    /// The limits that the AEDB instance was opened with, by default those of its default settings.
    #[must_use]
    pub fn aedb_limits(mut self, limits: AedbLimits) -> Self {
        self.aedb.limits = limits;
        self
    }

    /// Attaches to an AEDB instance.
    ///
    /// # Errors
    ///
    /// As [`Db::aedb`], and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the instance is attached under another caller already.
    pub fn aedb(self, instance: Arc<AedbInstance>) -> Result<Db> {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let drive = attach(instance, &self.aedb)?;
        let engine = Threaded::start(drive, Arc::clone(&clock), self.inline);
        Ok(Db { store: Arc::new(KvStore::new(engine, clock, self.callers_required)) })
    }
}
