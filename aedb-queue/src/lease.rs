//! A lease's handle: the right to act on a name, for a while.

use std::sync::Arc;

use crate::error::Result;
use crate::model::json::Json;
use crate::model::limits;
use crate::store::{
    Effects, FencedCommit, HeldLease, LeaseLength, LeaseOutcome, LeaseRecord, Place, RenewOutcome, Store,
};

/// A lease by name. Cheap to clone.
///
/// ```
/// # futures::executor::block_on(async {
/// use aedb_queue::{Db, Effects, LeaseLength, LeaseOutcome};
///
/// let lease = Db::memory()?.lease("keeper:cleanup")?;
/// let LeaseOutcome::Acquired(held) = lease.acquire("worker-1", LeaseLength::secs(30)).await? else { panic!() };
/// assert!(lease.guarded_commit(&held, Effects::new().put("cleaned", "yes")).await?.is_applied());
/// lease.release(&held).await?;
/// assert!(!lease.guarded_commit(&held, Effects::new().put("cleaned", "no")).await?.is_applied());
/// # Ok::<(), aedb_queue::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Lease {
    store: Arc<dyn Store>,
    at: Place,
    name: Arc<str>,
}

impl Lease {
    pub(crate) fn new(store: Arc<dyn Store>, at: Place, name: &str) -> Self {
        Self { store, at, name: name.into() }
    }

    /// Acquires it if it is free, has run out, or is this owner's already. Each time the token grows.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the owner's name or the length is not acceptable.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may still acquire. The lease then runs out by itself, or is acquired again by its owner.
    pub async fn acquire(&self, owner: &str, length: LeaseLength) -> Result<LeaseOutcome> {
        self.take(owner, length, None).await
    }

    /// The same, with a note about the holder that [`Lease::status`] and [`Scope::leases`](crate::Scope::leases) show.
    ///
    /// A renewal keeps the note, the next acquire replaces it, a release drops it.
    ///
    /// # Errors
    ///
    /// As [`Lease::acquire`], and [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if the note is over 64 KiB.
    ///
    /// # Cancel safety
    ///
    /// As [`Lease::acquire`].
    pub async fn acquire_with(&self, owner: &str, length: LeaseLength, note: Json) -> Result<LeaseOutcome> {
        self.take(owner, length, Some(note)).await
    }

    async fn take(&self, owner: &str, length: LeaseLength, note: Option<Json>) -> Result<LeaseOutcome> {
        limits::name("owner", owner)?;
        length.check()?;
        limits::at_most("lease note bytes", limits::NOTE_BYTES, note.as_ref().map_or(0, |note| note.as_str().len()))?;
        self.store.acquire(&self.at, &self.name, owner, length, note).await
    }

    /// Extends it from now; it never gets shorter. A released lease, or one that ran out, cannot be renewed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the length is out of range.
    pub async fn renew(&self, held: &HeldLease, length: LeaseLength) -> Result<RenewOutcome> {
        length.check()?;
        self.store.renew(&self.at, held, length).await
    }

    /// Gives it back. The token stays, so that nothing can be written under it any more. Releasing twice is harmless.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn release(&self, held: &HeldLease) -> Result<()> {
        self.store.release(&self.at, held).await
    }

    /// Applies effects only if the token is current and the lease has not run out, decided in the commit itself.
    ///
    /// # Errors
    ///
    /// As [`AppKeys::commit`](crate::AppKeys::commit). A lost lease is an answer, not an error.
    pub async fn guarded_commit(&self, held: &HeldLease, effects: Effects) -> Result<FencedCommit> {
        effects.check()?;
        self.store.guarded_commit(&self.at, held, effects).await
    }

    /// Who holds it, until when, and its token; `None` if it was never acquired.
    ///
    /// # Errors
    ///
    /// Only if the store cannot serve.
    pub async fn status(&self) -> Result<Option<LeaseRecord>> {
        self.store.lease_status(&self.at, &self.name).await
    }
}
