//! A write in the engine's own terms, for those who know which engine it is.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A write of the database below, which rides in the same commit: where the tasks live inside of AEDB, one of AEDB's mutations.
#[derive(Clone)]
pub struct NativeWrite(Arc<dyn Any + Send + Sync>);

impl NativeWrite {
    /// Wraps what the engine will look for.
    #[cfg_attr(not(feature = "aedb"), allow(dead_code, reason = "only AEDB has writes of its own"))]
    pub(crate) fn new(write: impl Any + Send + Sync) -> Self {
        Self(Arc::new(write))
    }

    /// The write, if it is of this type.
    #[cfg_attr(not(feature = "aedb"), allow(dead_code, reason = "only AEDB has writes of its own"))]
    pub(crate) fn of<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for NativeWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NativeWrite")
    }
}
