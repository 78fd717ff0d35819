//! Lists of tasks, to be given to a worker at once.

use std::fmt;
use std::sync::Arc;

use crate::handler::{Handler, Registered, typed};

/// Some tasks; see [`tasks!`](crate::tasks).
#[derive(Default)]
#[must_use]
pub struct Tasks(pub(crate) Vec<(Arc<str>, Registered)>);

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Tasks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// These and one more.
    pub fn with(mut self, handler: impl Handler) -> Self {
        self.0.extend(typed(handler));
        self
    }

    /// These and others.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

/// A list of tasks by the names of their functions: `.tasks(tasks![charge, send_receipt])`.
#[macro_export]
macro_rules! tasks {
    ($($task:ty),* $(,)?) => {
        $crate::Tasks::new()$(.with(<$task as ::std::default::Default>::default()))*
    };
}
