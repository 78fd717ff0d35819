//! AEDB as the engine's drive (feature `aedb`): our keys lie in the key-value part of its own projects and scopes, and a batch is one
//! envelope of an instance that the application has open.
//!
//! What a batch has read by key is asserted by version in its envelope, so that whatever else writes to the instance can only make
//! the batch run again. A commit that ends without an answer is sent once more under its idempotency key, which AEDB applies once.

mod commit;
mod drive;
mod open;
mod place;
mod run;
mod view;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use aedb::AedbInstance;
use aedb::permission::CallerContext;
use tokio::runtime::{Handle, RuntimeFlavor};

use self::place::Known;
use self::run::Runner;
use crate::error::{Error, ErrorKind, Result};

pub use self::open::open_aedb;
pub use self::place::AedbLimits;

/// The caller that the engine reads as, and writes as where a call names no caller.
const OWN_CALLER: &str = "aedb-queue";

/// An instance, shared by every [`Db`](crate::Db) that is attached to it.
pub(crate) struct Aedb {
    instance: Arc<AedbInstance>,
    runner: Runner,
    /// The caller for reads.
    own: CallerContext,
    /// Whether anonymous writes and grants of our own are possible.
    anonymous: bool,
    limits: AedbLimits,
    known: Known,
    /// One batch at a time.
    writer: Mutex<u64>,
    /// Held while a commit is on its way, so that a read sees no half of it.
    gate: RwLock<()>,
    /// Marks of our own commits that the feed has not repeated yet.
    sent: Arc<Mutex<VecDeque<u64>>>,
    /// Drawn once; with the number of the commit, its idempotency key.
    origin: u64,
}

impl fmt::Debug for Aedb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aedb").field("own", &self.own.caller_id).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// How to attach.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attach {
    /// The caller whose permissions the engine uses, needed where AEDB requires callers.
    pub(crate) caller: Option<String>,
    /// The instance's limits.
    pub(crate) limits: AedbLimits,
}

static ATTACHED: Mutex<Vec<Weak<Aedb>>> = Mutex::new(Vec::new());

/// Attaches to an instance; the second time it is the same drive, so that batches of all handles take turns.
pub(crate) fn attach(instance: Arc<AedbInstance>, how: &Attach) -> Result<Arc<Aedb>> {
    let mut attached = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
    attached.retain(|aedb| aedb.strong_count() > 0);
    let there = attached.iter().filter_map(Weak::upgrade).find(|aedb| Arc::ptr_eq(&aedb.instance, &instance));
    let caller = how.caller.as_deref().unwrap_or(OWN_CALLER);
    if let Some(aedb) = there {
        if aedb.own.caller_id == caller {
            return Ok(aedb);
        }
        return Err(Error::invalid(format!("this instance is attached as {} already", aedb.own.caller_id)));
    }
    let handle =
        Handle::try_current().ok().filter(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread).ok_or_else(
            || Error::invalid("attach to AEDB within the multi-thread tokio runtime that its instance was opened in"),
        )?;
    let aedb = Arc::new(Aedb {
        instance,
        runner: Runner::new(handle),
        own: CallerContext::new(caller),
        anonymous: how.caller.is_none(),
        limits: how.limits,
        known: Known::default(),
        writer: Mutex::default(),
        gate: RwLock::default(),
        sent: Arc::default(),
        origin: run::drawn(),
    });
    attached.push(Arc::downgrade(&aedb));
    Ok(aedb)
}

fn denied(message: String) -> Error {
    Error::new(ErrorKind::PermissionDenied, message)
}
