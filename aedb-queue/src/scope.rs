//! A scope: the namespace in which queues, leases and application keys live.

use std::sync::Arc;

use crate::app_keys::AppKeys;
use crate::error::Result;
use crate::lease::Lease;
use crate::model::limits;
use crate::queue::Queue;
use crate::store::{Cursor, LeasePage, LiveWorker, Place, Store};
use crate::time::Timestamp;

/// The namespace `project/scope`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scope {
    store: Arc<dyn Store>,
    at: Place,
}

impl Scope {
    pub(crate) fn new(store: Arc<dyn Store>, project: &str, scope: &str) -> Self {
        Self { store, at: Place { project: project.into(), scope: scope.into(), caller: None } }
    }

    /// The same scope on behalf of a caller, whose grants are checked before each call does anything.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) unless the name has 1 to 255 bytes without control characters.
    pub fn as_caller(&self, caller: &str) -> Result<Self> {
        limits::name("caller", caller)?;
        let at = Place { caller: Some(caller.into()), ..self.at.clone() };
        Ok(Self { store: Arc::clone(&self.store), at })
    }

    /// A queue. It exists from its first task on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) unless the name has 1 to 255 bytes without control characters.
    pub fn queue(&self, name: &str) -> Result<Queue> {
        limits::name("queue name", name)?;
        Ok(Queue::new(Arc::clone(&self.store), self.at.clone(), name))
    }

    /// A lease. It exists from its first acquire on.
    ///
    /// # Errors
    ///
    /// As [`Scope::queue`].
    pub fn lease(&self, name: &str) -> Result<Lease> {
        limits::name("lease name", name)?;
        Ok(Lease::new(Arc::clone(&self.store), self.at.clone(), name))
    }

    /// A page of the leases whose names begin with a prefix, in the byte order of their names, held or not; an empty prefix
    /// is for all.
    ///
    /// A page has at most `limit` leases, and at most 1,000. Records that are damaged are passed over.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the cursor is not one of this prefix, [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if the prefix has over 255
    /// bytes, [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied) without a grant for the scope.
    pub async fn leases(&self, prefix: &str, after: Option<Cursor>, limit: usize) -> Result<LeasePage> {
        limits::at_most("lease name bytes", limits::NAME_BYTES, prefix.len())?;
        self.store.leases(&self.at, prefix, after, limit).await
    }

    /// The workers that have announced themselves and live, in the order of their identities; up to 10,000 announcements
    /// are looked at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied) without a grant for the scope.
    ///
    /// # Examples
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use aedb_queue::{Db, LeaseLength, LiveWorker};
    ///
    /// let scope = Db::memory()?.default_scope();
    /// let note = LiveWorker::note("box-7", 4711, &["mail"], &["mail.welcome"])?;
    /// let lease = scope.lease(&format!("{}box-7/4711", LiveWorker::PREFIX))?;
    /// lease.acquire_with("box-7/4711", LeaseLength::secs(60), note).await?;
    /// assert_eq!(scope.workers().await?[0].pid, 4711);
    /// # Ok::<(), aedb_queue::Error>(()) }).unwrap();
    /// ```
    pub async fn workers(&self) -> Result<Vec<LiveWorker>> {
        self.store.workers(&self.at).await
    }

    /// The present instant on the database's clock.
    pub fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// The application's own keys.
    pub fn kv(&self) -> AppKeys {
        AppKeys::new(Arc::clone(&self.store), self.at.clone())
    }

    /// The names of the scope's queues, in byte order of length, then name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied) without a grant for the scope.
    pub async fn queues(&self) -> Result<Vec<String>> {
        self.store.queues(&self.at).await
    }

    /// Where it is, and on whose behalf.
    pub fn place(&self) -> &Place {
        &self.at
    }
}
