//! C66: functions of every form, left as they were written.

use std::future::Future;
use std::io;

use aedb_queue::{Filter, StateKind, TaskRecord};
use aedb_worker::testing::{self, Kit};
use aedb_worker::{FromContext, Meta, Outcome, Progress, State, TaskContext, TaskError, task, tasks};

use crate::{builder, worker};

type Fallible = Result<Outcome<u8>, TaskError>;
type Fallibly<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
type IoResult<T> = Result<T, io::Error>;
type Done = Outcome<u8>;
type DoneResult = Result<(), TaskError>;

/// An error that is not of the standard kind, like those of popular crates.
#[derive(Debug)]
struct Shown(&'static str);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// An error with a cause.
#[derive(Debug)]
struct Caused(io::Error);

impl std::fmt::Display for Caused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("effect")
    }
}

impl std::error::Error for Caused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[task]
async fn nothing(_: ()) {}

#[task]
async fn value(input: u8) -> u8 {
    input + 1
}

#[task]
async fn outcome(input: u8) -> Outcome<u8> {
    Outcome::done(input + 1)
}

#[task]
async fn named_outcome(input: u8) -> Done {
    Outcome::done(input + 1)
}

#[task]
async fn result(input: u8) -> Result<u8, io::Error> {
    if input == 0 { Err(io::Error::other("zero")) } else { Ok(input + 1) }
}

#[task]
async fn named_result(input: u8) -> IoResult<u8> {
    Ok(input + 1)
}

#[task]
async fn no_value_result(_: u8) -> DoneResult {
    Ok(())
}

#[task]
async fn both(input: u8) -> Result<Outcome<u8>, TaskError> {
    Ok(Outcome::done(input + 1))
}

#[task]
async fn shown(input: u8) -> Result<u8, Shown> {
    if input == 0 { Err(Shown("shown")) } else { Ok(input) }
}

#[task]
async fn r#loop(_: u8) {}

/// It does not exist, and nothing of it does.
#[task]
#[cfg(any())]
async fn absent(_: Nowhere) {}

/// The crate under another name.
mod renamed {
    pub(super) use aedb_worker as worker;

    #[worker::task(crate = self::worker, follow_ups(super::value))]
    pub(super) async fn elsewhere(input: u8) -> worker::Outcome<u8> {
        worker::Outcome::done(input).then(elsewhere::value(input))
    }
}

/// An error that could be kept as a value is an error all the same.
#[task]
async fn text_error(input: u8) -> Result<u8, String> {
    if input == 0 { Err("text".to_owned()) } else { Ok(input) }
}

#[task]
fn blocking(input: u8) -> Result<u8, TaskError> {
    if input == 0 { Err(TaskError::new("fatal").fatal()) } else { Ok(input + 1) }
}

#[task]
#[expect(clippy::manual_async_fn, reason = "this form is the point")]
fn future(input: u8) -> impl Future<Output = Result<u8, TaskError>> + Send {
    async move { Ok(input + 1) }
}

#[task]
async fn aliased(input: u8) -> Fallible {
    if input == 0 { Err(TaskError::new("alias").fatal()) } else { Ok(Outcome::done(input + 1)) }
}

#[task]
fn boxed(input: u8) -> Fallibly<u8> {
    if input == 0 { Err(Box::new(Caused(io::Error::other("cause")))) } else { Ok(input + 1) }
}

#[tokio::test]
async fn c66_functions_of_every_form_are_tasks_and_keep_their_result() {
    let kit = Kit::new().unwrap();
    nothing::enqueue(kit.db(), ()).await.unwrap();
    no_value_result::enqueue(kit.db(), 1).await.unwrap();
    value::enqueue(kit.db(), 1).await.unwrap();
    outcome::enqueue(kit.db(), 1).await.unwrap();
    named_outcome::enqueue(kit.db(), 1).await.unwrap();
    result::enqueue(kit.db(), 1).await.unwrap();
    named_result::enqueue(kit.db(), 1).await.unwrap();
    both::enqueue(kit.db(), 1).await.unwrap();
    blocking::enqueue(kit.db(), 1).await.unwrap();
    future::enqueue(kit.db(), 1).await.unwrap();
    aliased::enqueue(kit.db(), 1).await.unwrap();
    boxed::enqueue(kit.db(), 1).await.unwrap();
    let values = tasks![nothing, value, outcome, named_outcome, blocking, future];
    let results = tasks![no_value_result, result, named_result, both, aliased, boxed];
    kit.drain(&worker(&kit, values.and(results))).await.unwrap();
    let done = records(&kit, StateKind::Done).await;
    assert_eq!(done.len(), 12);
    for task in done {
        let expected = if matches!(&*task.name, "nothing" | "no_value_result") { None } else { Some("2") };
        assert_eq!(task.result.as_ref().map(aedb_queue::Json::as_str), expected, "{}", task.name);
    }
    // They are still the functions that they were.
    assert_eq!(value(1).await, 2);
    assert_eq!(blocking(1).unwrap(), 2);
    assert!(aliased(1).await.is_ok());
}

#[tokio::test]
async fn errors_of_every_kind_are_failures_with_their_words() {
    let kit = Kit::new().unwrap();
    result::enqueue(kit.db(), 0).await.unwrap();
    shown::enqueue(kit.db(), 0).await.unwrap();
    text_error::enqueue(kit.db(), 0).await.unwrap();
    blocking::enqueue(kit.db(), 0).await.unwrap();
    aliased::enqueue(kit.db(), 0).await.unwrap();
    boxed::enqueue(kit.db(), 0).await.unwrap();
    kit.drain(&worker(&kit, tasks![result, shown, text_error, blocking, aliased, boxed])).await.unwrap();
    let expected = [("result", "zero"), ("shown", "shown"), ("text_error", "text"), ("blocking", "fatal")];
    for (name, words) in expected.into_iter().chain([("aliased", "alias"), ("boxed", "effect: cause")]) {
        let filter = Filter::all().name(name);
        let task = kit.queue("default").unwrap().list(filter).await.unwrap().tasks.remove(0);
        assert_eq!(&*task.failures[0].error, words);
        let state = if matches!(name, "blocking" | "aliased") { StateKind::Dead } else { StateKind::Scheduled };
        assert_eq!(task.state.kind(), state, "{name}");
    }
}

#[tokio::test]
async fn names_that_the_language_keeps_and_crates_of_another_name_are_fine() {
    assert_eq!(r#loop::NAME, "loop");
    let kit = Kit::new().unwrap();
    r#loop::enqueue(kit.db(), 1).await.unwrap();
    renamed::elsewhere::enqueue(kit.db(), 1).await.unwrap();
    let tasks = renamed::worker::tasks![r#loop, renamed::elsewhere, value];
    assert_eq!(kit.drain(&worker(&kit, tasks)).await.unwrap(), 3);
}

struct Tenant(String);

impl FromContext for Tenant {
    fn from_context(cx: &TaskContext) -> Result<Self, TaskError> {
        let tenant = cx.metadata("tenant").ok_or_else(|| TaskError::new("no tenant").fatal())?;
        Ok(Self(tenant.to_owned()))
    }
}

#[task(name = "shop.extract")]
async fn extract(
    (a, b): (u8, u8),
    Tenant(tenant): Tenant,
    State(greeting): State<String>,
    Progress(step): Progress<u8>,
    meta: Meta,
    cx: TaskContext,
) -> Result<String, TaskError> {
    cx.checkpoint(&9).await?;
    if meta.attempt == 1 {
        return Err(TaskError::new("once").retry_after(std::time::Duration::ZERO));
    }
    Ok(format!("{greeting} {tenant}: {a} {b} {step:?} {}", meta.name))
}

#[tokio::test]
async fn extractors_come_in_any_order() {
    let kit = Kit::new().unwrap();
    let task = extract::with((1, 2)).metadata("tenant", "acme").into_task().unwrap();
    kit.queue("default").unwrap().enqueue(task).await.unwrap();
    extract::enqueue(kit.db(), (3, 4)).await.unwrap();
    let worker = builder(kit.db()).tasks(tasks![extract]).state("hello".to_owned()).build().unwrap();
    kit.drain(&worker).await.unwrap();
    let done = records(&kit, StateKind::Done).await;
    assert_eq!(done[0].result.as_ref().unwrap().as_str(), "\"hello acme: 1 2 Some(9) shop.extract\"");
    assert_eq!(&*records(&kit, StateKind::Dead).await[0].failures[0].error, "no tenant");
}

#[tokio::test]
async fn a_state_that_is_missing_is_told_when_the_worker_is_built() {
    let kit = Kit::new().unwrap();
    let error = builder(kit.db()).tasks(tasks![extract]).build().unwrap_err().to_string();
    assert!(error.contains("shop.extract needs a state of type alloc::string::String"), "{error}");
}

#[tokio::test]
async fn a_function_is_tested_with_a_context_made_by_hand() {
    let cx = testing::context("shop.extract", &(1, 2)).unwrap().attempt(2).build();
    let meta = Meta::from_context(&cx).unwrap();
    let state = State(std::sync::Arc::new("hi".to_owned()));
    let said = extract((1, 2), Tenant("t".to_owned()), state, Progress(None), meta, cx.clone()).await.unwrap();
    assert_eq!(said, "hi t: 1 2 None shop.extract");
    assert_eq!(cx.checkpoints().len(), 1);
    let (decided, _) = testing::perform(&value {}, &1).await;
    assert_eq!(decided.unwrap().result(), Some(&2));
}

async fn records(kit: &Kit, state: StateKind) -> Vec<TaskRecord> {
    kit.queue("default").unwrap().list(Filter::state(state)).await.unwrap().tasks
}
