//! What the application shares with its handlers, by type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aedb_queue::{Error, Result};

/// One value of each type.
#[derive(Clone, Default)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states", self.0.len())
    }
}

impl States {
    /// Adds a value; false if there is one of its type already.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.0.insert(TypeId::of::<T>(), Arc::new(value)).is_none()
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let found = self.0.get(&TypeId::of::<T>()).and_then(|value| Arc::clone(value).downcast().ok());
        found.ok_or_else(|| Error::invalid(format!("no state of type {}: add it with .state(value)", type_name::<T>())))
    }
}
