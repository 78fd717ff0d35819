//! The lock of inputs: what it sees of a type, and what it says when a type changes.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    dead_code,
    reason = "a test fails by panicking, and nobody makes these inputs"
)]

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use aedb_worker::{Tasks, task, tasks, testing};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    #[serde(rename = "who")]
    customer: Option<Customer>,
    items: Vec<(String, f64)>,
    paid: Way,
    notes: BTreeMap<u8, String>,
    within: Option<Box<Order>>,
    tree: Tree,
    day: Day,
}

#[derive(Serialize, Deserialize)]
struct Customer {
    name: String,
}

#[derive(Serialize, Deserialize)]
enum Way {
    Cash,
    Card { number: String },
    Transfer(Account),
}

#[derive(Serialize, Deserialize)]
struct Account(String, Checked);

/// A text that is checked when it is read, as dates and addresses are.
#[derive(Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[derive(Clone)]
struct Checked(String);

impl TryFrom<String> for Checked {
    type Error = &'static str;

    fn try_from(_: String) -> Result<Self, Self::Error> {
        Err("never good enough")
    }
}

impl From<Checked> for String {
    fn from(checked: Checked) -> Self {
        checked.0
    }
}

type Day = Checked;

#[derive(Serialize, Deserialize)]
struct Tree(Vec<Tree>);

#[derive(Serialize, Deserialize)]
enum List {
    More(Box<List>, u8),
    End,
}

#[task(name = "order.place", alias("place_order"))]
async fn place(_: Order) {}

#[task]
async fn walk(_: (List, Checked, bool)) {}

#[task]
async fn tick(_: ()) {}

const FORMS: &str = "
[order.place 1]
number: u64
who?.name: text
items[][0]: text
items[][1]: f64
paid.Cash: name alone
paid.Card.number: text
paid.Transfer[0]: text
paid.Transfer[1]: text
notes{}: text
within?: the same again
tree[]: the same again
day: text

[tick 1]
null

[walk 1]
[0].More[0]: the same again
[0].More[1]: any
[0].End: name alone
[1]: any
[2]: any
";

/// What it says, or nothing.
fn complaint(path: &Path, tasks: fn() -> Tasks) -> String {
    let path = path.to_owned();
    match catch_unwind(move || testing::assert_lock(path, &tasks())) {
        Ok(()) => String::new(),
        Err(panic) => panic.downcast_ref::<String>().cloned().unwrap(),
    }
}

#[test]
fn forms_are_seen_without_making_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("tasks.lock");
    std::fs::write(&lock, FORMS).unwrap();
    assert_eq!(complaint(&lock, || tasks![place, walk, tick]), "");
}

#[test]
fn a_change_without_a_new_version_is_told_with_the_fields() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("tasks.lock");
    std::fs::write(&lock, FORMS.replace("number: u64", "number: u32").replace("day: text\n", "")).unwrap();
    let told = complaint(&lock, || tasks![place, walk, tick]);
    assert!(told.contains("- order.place: its input has changed. Give it `version = 2`"), "{told}");
    assert!(told.contains("\n    - number: u32\n    + number: u64\n    + day: text\n"), "{told}");
}

#[test]
fn a_task_that_is_gone_or_new_or_went_back_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("tasks.lock");
    let told = complaint(&lock, || tasks![tick]);
    assert!(told.contains("- tick: the task is new") && told.contains("could not be read"), "{told}");
    std::fs::write(&lock, "[place_order 1]\nu64\n[lost 1]\nu64\n[tick 2]\nu64\n[tick 1]\nnull\n").unwrap();
    let told = complaint(&lock, || tasks![place, tick]);
    assert!(told.contains("- lost: no task has this name or alias"), "{told}");
    assert!(told.contains("- tick: its version has gone back to 1"), "{told}");
    assert!(!told.contains("- place_order"), "an alias keeps it: {told}");
}

/// Run by the test below, with another environment.
#[test]
#[ignore = "it is run by another test"]
fn write() {
    testing::assert_lock(std::env::var("LOCK_AT").unwrap(), &tasks![place, tick]);
}

#[test]
fn writing_keeps_earlier_versions_and_names_and_forgets_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("tasks.lock");
    std::fs::write(&lock, "[place_order 1]\nu64\n[lost 1]\nu64\n[tick 0]\nbool\n[tick 1]\nbool\n").unwrap();
    let this = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(this);
    command.args(["--exact", "write", "--ignored"]).env("TASKS_LOCK", "write").env("LOCK_AT", &lock);
    assert!(command.output().unwrap().status.success());
    let written = std::fs::read_to_string(&lock).unwrap();
    assert!(written.starts_with("# The forms of all inputs"), "{written}");
    assert!(written.contains("[place_order 1]\nu64\n") && !written.contains("lost"), "{written}");
    assert!(written.contains("[tick 0]\nbool\n\n[tick 1]\nnull\n"), "{written}");
    assert_eq!(complaint(&lock, || tasks![place, tick]), "");
}
