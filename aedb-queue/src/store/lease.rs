//! Leases: the right to act on a name, for a while.
//!
//! A lease carries a fencing token that grows each time it changes hands. Every later write must show the token, so a
//! worker that slept through its deadline can do no harm.

use std::sync::Arc;

use crate::model::json::Json;
use crate::model::task::FencingToken;
use crate::store::Cursor;
use crate::time::Timestamp;

/// A lease that this process holds, or held.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLease {
    /// The lease's name.
    pub name: Arc<str>,
    /// Who holds it.
    pub owner: Arc<str>,
    /// The token that guarded commits show.
    pub token: FencingToken,
    /// When it runs out unless renewed.
    pub until: Timestamp,
}

/// What an acquire answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// It was free, had run out, or was this owner's: it is held now, under a new token.
    Acquired(HeldLease),
    /// Somebody else holds it.
    Held {
        /// Who.
        owner: Arc<str>,
        /// Until when.
        until: Timestamp,
    },
}

/// What a renewal answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lost lease means that the work must stop"]
pub enum RenewOutcome {
    /// The lease lasts until this instant.
    Renewed(Timestamp),
    /// It ran out, was released, or is somebody else's.
    Lost,
}

/// Everything that is recorded about a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseRecord {
    /// The lease's name.
    pub name: Arc<str>,
    /// Who holds it; `None` after a release.
    pub owner: Option<Arc<str>>,
    /// The token of the last holder.
    pub token: FencingToken,
    /// When it runs out, or ran out.
    pub until: Timestamp,
    /// When it was last acquired.
    pub acquired: Timestamp,
    /// What the holder said about itself when it acquired the lease; a renewal keeps it, a release drops it.
    pub note: Option<Json>,
}

impl LeaseRecord {
    /// Whether somebody holds it at an instant.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.owner.is_some() && now < self.until
    }
}

/// A page of leases, in the order of their names.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LeasePage {
    /// The leases, held or not. A page can hold fewer than asked for, even none, and still have a next one.
    pub leases: Vec<LeaseRecord>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Cursor>,
}
