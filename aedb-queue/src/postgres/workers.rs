//! Live workers: the leases whose names begin with `worker:`, and what they say.

use sqlx::PgConnection;

use super::fault::Fault;
use super::pool::Verb;
use super::{PgStore, lease};
use crate::store::{LiveWorker, Place};

/// Up to how many announcements are looked at.
pub(super) const LOOKS: usize = 10_000;

/// A worker that has announced itself.
pub(super) struct Announced {
    pub(super) worker: LiveWorker,
    pub(super) is_live: bool,
}

/// Everyone who did, in the order of their identities.
pub(super) async fn announced(store: &PgStore, conn: &mut PgConnection, at: &Place) -> Result<Vec<Announced>, Fault> {
    let now = store.server_now(conn).await?;
    let leases = lease::page(store, conn, at, LiveWorker::PREFIX, None, LOOKS).await?;
    let announced = leases.iter().map(|lease| Announced {
        is_live: lease.is_held(now),
        worker: LiveWorker::read(
            lease.name.get(LiveWorker::PREFIX.len()..).unwrap_or_default(),
            lease.until,
            lease.note.as_ref(),
        ),
    });
    Ok(announced.collect())
}

pub(super) struct Workers {
    pub(super) at: Place,
}

impl Verb for Workers {
    type Answer = Vec<LiveWorker>;
    const WRITES: bool = false;

    async fn run(&self, store: &PgStore, conn: &mut PgConnection) -> Result<Vec<LiveWorker>, Fault> {
        let announced = announced(store, conn, &self.at).await?;
        Ok(announced.into_iter().filter(|found| found.is_live).map(|found| found.worker).collect())
    }
}
