//! A task as the reference sees it: plain fields, no index, no store.

use aedb_queue::StateKind;

pub(crate) const WAIT: u64 = 5;
pub(crate) const LEASE: u64 = 10;
pub(crate) const MAX_ATTEMPTS: u32 = 3;
pub(crate) const MAX_LOST: u32 = 4;

#[derive(Debug, Clone)]
pub(crate) struct Ref {
    pub(crate) priority: u64,
    pub(crate) name: &'static str,
    pub(crate) state: State,
    pub(crate) token: u64,
    pub(crate) max_attempts: u32,
    pub(crate) failures: u32,
    pub(crate) lost: u32,
    pub(crate) key: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Scheduled(u64),
    Ready,
    InFlight(u64),
    Done,
    Dead,
    Cancelled,
}

impl Ref {
    pub(crate) fn is_spent(&self) -> bool {
        self.failures >= self.max_attempts
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, State::Scheduled(_) | State::Ready | State::InFlight(_))
    }
}

impl State {
    pub(crate) fn kind(self) -> StateKind {
        match self {
            Self::Scheduled(_) => StateKind::Scheduled,
            Self::Ready => StateKind::Ready,
            Self::InFlight(_) => StateKind::InFlight,
            Self::Done => StateKind::Done,
            Self::Dead => StateKind::Dead,
            Self::Cancelled => StateKind::Cancelled,
        }
    }
}
