//! Who dispatches a topic, and which lanes are whose: each member holds its share of leases, and takes over those that run out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aedb_queue::{HeldLease, LeaseLength, LeaseOutcome, RenewOutcome, Result};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::dispatch::Shared;
use super::keys::LANES;
use super::lane::Lane;
use crate::run::monotonic;

/// The lanes that this dispatcher holds, and until when on its own clock.
#[derive(Debug, Default)]
pub(crate) struct Lanes(BTreeMap<u16, Owned>);

#[derive(Debug)]
struct Owned {
    lane: Arc<Lane>,
    safe: Instant,
}

impl Lanes {
    /// Forgets lanes that are over.
    pub(crate) fn forget(&mut self) {
        self.0.retain(|_, owned| !owned.lane.over.is_cancelled());
    }

    /// Ends the lanes whose lease nobody could extend: a moment before somebody else can have it.
    pub(crate) fn expire(&mut self, length: Duration) {
        let margin = length / 20;
        for owned in self.0.values() {
            if monotonic::now() + margin >= owned.safe {
                owned.lane.over.cancel();
            }
        }
        self.forget();
    }

    /// Renews all leases.
    pub(crate) async fn renew(&mut self, length: Duration) {
        let renewals = self.0.values_mut().map(|owned| async move {
            let sent = monotonic::now();
            match owned.lane.lease.renew(&owned.lane.held, LeaseLength::of(length)).await {
                Ok(RenewOutcome::Renewed(_)) => owned.safe = sent + length,
                Ok(RenewOutcome::Lost) => owned.lane.over.cancel(),
                // Tried again at the next turn, and over when its time is.
                Err(_) => {}
            }
        });
        join_all(renewals).await;
        self.forget();
    }

    /// Takes free lanes up to a share, and gives back what is over it. Answers the new ones.
    pub(crate) async fn balance(&mut self, shared: &Shared, share: usize) -> Result<Vec<Arc<Lane>>> {
        while self.0.len() > share {
            let Some((_, owned)) = self.0.pop_last() else { break };
            owned.lane.over.cancel();
            owned.lane.lease.release(&owned.lane.held).await?;
        }
        // Members begin their search at different lanes, so that they do not all ask for the same.
        let first = crate::outbox::keys::lane_of(&shared.parts.owner);
        let free = (0..LANES).map(|n| (first + n) % LANES).filter(|number| !self.0.contains_key(number));
        let (mut free, mut taken) = (free.collect::<Vec<_>>().into_iter(), Vec::new());
        loop {
            // Asked together, so that all of them share a commit.
            let ask: Vec<_> = free.by_ref().take(share.saturating_sub(self.0.len())).collect();
            if ask.is_empty() {
                break;
            }
            for answer in join_all(ask.iter().map(|number| take(shared, *number))).await {
                if let Some(owned) = answer? {
                    taken.push(Arc::clone(&owned.lane));
                    self.0.insert(owned.lane.number, owned);
                }
            }
        }
        Ok(taken)
    }

    /// Gives all back.
    pub(crate) async fn release(&mut self) {
        for owned in std::mem::take(&mut self.0).into_values() {
            owned.lane.over.cancel();
            // If this fails, it runs out by itself.
            let _ = owned.lane.lease.release(&owned.lane.held).await;
        }
    }
}

async fn take(shared: &Shared, number: u16) -> Result<Option<Owned>> {
    let parts = &shared.parts;
    let lease = parts.scope.lease(&format!("outbox:{}:{number}", shared.keys.topic()))?;
    let sent = monotonic::now();
    Ok(match lease.acquire(&parts.owner, LeaseLength::of(parts.lease)).await? {
        LeaseOutcome::Acquired(held) => {
            let lane = Arc::new(Lane { number, lease, held, over: CancellationToken::new() });
            Some(Owned { lane, safe: sent + parts.lease })
        }
        LeaseOutcome::Held { .. } => None,
    })
}

/// This dispatcher's place among the members of its topic.
#[derive(Debug, Default)]
pub(crate) struct Membership(Option<HeldLease>);

impl Membership {
    fn prefix(shared: &Shared) -> String {
        format!("outbox-member:{}:", shared.keys.topic())
    }

    /// Says that this member lives, and answers how many lanes are its share.
    pub(crate) async fn share(&mut self, shared: &Shared) -> Result<usize> {
        let (parts, prefix) = (&shared.parts, Self::prefix(shared));
        let lease = parts.scope.lease(&format!("{prefix}{}", parts.owner))?;
        let length = LeaseLength::of(parts.lease);
        let renewed = match &self.0 {
            Some(held) => matches!(lease.renew(held, length).await?, RenewOutcome::Renewed(_)),
            None => false,
        };
        if !renewed && let LeaseOutcome::Acquired(held) = lease.acquire(&parts.owner, length).await? {
            self.0 = Some(held);
        }
        let (mut members, mut after, now) = (0_usize, None, shared.now());
        loop {
            let page = parts.scope.leases(&prefix, after, 1_000).await?;
            members += page.leases.iter().filter(|record| record.is_held(now)).count();
            after = page.next;
            if after.is_none() {
                return Ok(usize::from(LANES).div_ceil(members.max(1)));
            }
        }
    }

    /// Takes the place back.
    pub(crate) async fn leave(&mut self, shared: &Shared) {
        let name = format!("{}{}", Self::prefix(shared), shared.parts.owner);
        if let (Some(held), Ok(lease)) = (self.0.take(), shared.parts.scope.lease(&name)) {
            let _ = lease.release(&held).await;
        }
    }
}
