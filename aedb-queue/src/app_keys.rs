//! The application's own keys in the same store, so that its state and its tasks change in one commit.

use std::sync::Arc;

use crate::error::Result;
use crate::model::limits;
use crate::store::{Effects, KeyRange, Place, Store};

/// The application's keys in a scope. Cheap to clone.
///
/// ```
/// # futures::executor::block_on(async {
/// use aedb_queue::{Db, Effects};
///
/// let kv = Db::memory()?.default_scope().kv();
/// kv.commit(Effects::new().assert_absent("order:7").put("order:7", "placed")).await?;
/// assert_eq!(kv.get("order:7").await?.as_deref(), Some(b"placed".as_slice()));
/// # Ok::<(), aedb_queue::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct AppKeys {
    store: Arc<dyn Store>,
    at: Place,
}

impl AppKeys {
    pub(crate) fn new(store: Arc<dyn Store>, at: Place) -> Self {
        Self { store, at }
    }

    /// A key's value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the key is empty or reserved.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        limits::application_key(key.as_ref())?;
        self.store.key_get(&self.at, key.as_ref()).await
    }

    /// Keys and values of a range, in byte order of the keys; at most 1,000.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied) without a grant for the prefix.
    pub async fn scan(&self, range: KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.store.key_scan(&self.at, range).await
    }

    /// Applies effects in one commit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if an assertion does not hold, [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a reserved key, [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) over a limit: nothing is applied.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may still commit. Read to find out.
    pub async fn commit(&self, effects: Effects) -> Result<()> {
        effects.check()?;
        self.store.commit(&self.at, effects).await
    }
}
