//! Extractors: what a task's function takes beside its input.

use std::any::type_name;
use std::sync::Arc;

use aedb_queue::{TaskId, Timestamp};
use serde::de::DeserializeOwned;

use crate::context::TaskContext;
use crate::error::TaskError;
use crate::state::States;

/// What a task's function can take beside its input.
///
/// ```
/// use aedb_worker::{FromContext, Needs, TaskContext, TaskError};
///
/// struct Tenant(String);
///
/// impl FromContext for Tenant {
///     fn from_context(cx: &TaskContext) -> Result<Self, TaskError> {
///         let tenant = cx.metadata("tenant").ok_or_else(|| TaskError::new("the task names no tenant").fatal())?;
///         Ok(Self(tenant.to_owned()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no extractor",
    label = "a task takes one input, its first parameter; what follows must be an extractor",
    note = "extractors are `TaskContext`, `State<T>`, `Progress<T>`, `Meta`, and types that implement `FromContext`",
    note = "to take several inputs, put them into one struct"
)]
pub trait FromContext: Sized {
    /// Takes it from the context of an attempt.
    ///
    /// # Errors
    ///
    /// Then the attempt fails with it, before the function is called.
    fn from_context(cx: &TaskContext) -> Result<Self, TaskError>;

    /// Says what the worker must have, so that `build()` can tell what is missing.
    fn needs(needs: &mut Needs<'_>) {
        let _ = needs;
    }
}

/// What a handler needs of its worker, and what of it is missing.
#[derive(Debug)]
pub struct Needs<'a> {
    states: &'a States,
    missing: Vec<&'static str>,
}

impl<'a> Needs<'a> {
    pub(crate) fn of(states: &'a States) -> Self {
        Self { states, missing: Vec::new() }
    }

    /// A state of this type.
    pub fn state<T: Send + Sync + 'static>(&mut self) {
        if self.states.get::<T>().is_err() {
            self.missing.push(type_name::<T>());
        }
    }

    pub(crate) fn missing(self) -> Vec<&'static str> {
        self.missing
    }
}

impl FromContext for TaskContext {
    fn from_context(cx: &TaskContext) -> Result<Self, TaskError> {
        Ok(cx.clone())
    }
}

/// What the application shares with its handlers by `.state(value)`; `build()` fails without it.
#[derive(Debug)]
pub struct State<T>(pub Arc<T>);

impl<T: Send + Sync + 'static> FromContext for State<T> {
    fn from_context(cx: &TaskContext) -> Result<Self, TaskError> {
        Ok(Self(cx.state()?))
    }

    fn needs(needs: &mut Needs<'_>) {
        needs.state::<T>();
    }
}

/// The last checkpoint of an earlier attempt, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress<T>(pub Option<T>);

impl<T: DeserializeOwned> FromContext for Progress<T> {
    fn from_context(cx: &TaskContext) -> Result<Self, TaskError> {
        Ok(Self(cx.progress()?))
    }
}

/// What is known of the task itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meta {
    /// Its id.
    pub id: TaskId,
    /// Its queue.
    pub queue: String,
    /// Its name.
    pub name: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How often it was handed out.
    pub deliveries: u32,
    /// When it was enqueued.
    pub enqueued: Timestamp,
}

impl FromContext for Meta {
    fn from_context(cx: &TaskContext) -> Result<Self, TaskError> {
        Ok(Self {
            id: cx.id(),
            queue: cx.queue().to_owned(),
            name: cx.name().to_owned(),
            attempt: cx.attempt(),
            deliveries: cx.deliveries(),
            enqueued: cx.enqueued(),
        })
    }
}

/// Both sides of an extractor. Only making one asks for the bound, so that a type which is none is told of once.
#[derive(Debug)]
pub struct Extractor<T> {
    get: fn(&TaskContext) -> Result<T, TaskError>,
    needs: fn(&mut Needs<'_>),
}

/// The extractor of a type.
pub const fn extractor<T: FromContext>() -> Extractor<T> {
    Extractor { get: T::from_context, needs: T::needs }
}

impl<T> Extractor<T> {
    /// Takes it from a context.
    ///
    /// # Errors
    ///
    /// The extractor's own.
    pub fn get(&self, cx: &TaskContext) -> Result<T, TaskError> {
        (self.get)(cx)
    }

    /// Says what it needs.
    pub fn needs(&self, needs: &mut Needs<'_>) {
        (self.needs)(needs);
    }
}
