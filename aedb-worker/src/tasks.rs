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

    /// Every [task](crate::task) of the program, with the feature `collect`: nothing can be left out of a list by mistake.
    ///
    /// Tasks of a library are found if the program uses anything of that library; else the linker leaves it out as a whole.
    /// A task behind a `cfg` that does not hold is not there.
    #[cfg(feature = "collect")]
    pub fn all() -> Self {
        inventory::iter::<Collected>().fold(Self::new(), |tasks, collected| tasks.and((collected.0)()))
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

/// A task that the program has somewhere.
#[cfg(feature = "collect")]
#[derive(Debug)]
pub struct Collected(fn() -> Tasks);

#[cfg(feature = "collect")]
impl Collected {
    /// The task of a handler.
    pub const fn of<H: Handler + Default>() -> Self {
        Self(|| Tasks::new().with(H::default()))
    }
}

#[cfg(feature = "collect")]
inventory::collect!(Collected);

/// Registers a task for `Tasks::all`. It is here and not in the attribute, which cannot know whether the feature is on.
#[cfg(feature = "collect")]
#[doc(hidden)]
#[macro_export]
macro_rules! __collect {
    ($task:ty) => {
        $crate::__private::inventory::submit! { $crate::__private::Collected::of::<$task>() }
    };
}

#[cfg(not(feature = "collect"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __collect {
    ($task:ty) => {};
}
