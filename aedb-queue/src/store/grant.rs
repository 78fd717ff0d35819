//! Grants: what a named caller may do.

use std::sync::Arc;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Look.
    Read,
    /// Look and change.
    Write,
}

/// What a grant is for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrantTarget {
    /// All scopes of a project.
    Project(Arc<str>),
    /// Everything in one scope: queues, leases and application keys.
    Scope {
        /// The project.
        project: Arc<str>,
        /// The scope.
        scope: Arc<str>,
    },
    /// One queue.
    Queue {
        /// The project.
        project: Arc<str>,
        /// The scope.
        scope: Arc<str>,
        /// The queue.
        queue: Arc<str>,
    },
    /// The application keys of a scope that begin with these bytes.
    Keys {
        /// The project.
        project: Arc<str>,
        /// The scope.
        scope: Arc<str>,
        /// The first bytes of the keys.
        prefix: Vec<u8>,
    },
}
