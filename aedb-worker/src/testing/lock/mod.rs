//! The lock: the forms of all inputs in a file beside the code, so that a change which strands waiting tasks fails a test.
//!
//! ```text
//! [billing.charge 2]        the task and the version of its input
//! cents: u64                a field
//! customer.name: text       a field of a field
//! items[]: text             the elements of a list
//! note?: text               it may be missing or null
//! way.Card.number: text     a variant of an enum
//! ```

mod filler;
mod form;
mod stop;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(crate) use form::form;

use crate::tasks::Tasks;

/// The environment variable that says to write the lock.
const WRITE: &str = "TASKS_LOCK";

const HEAD: &str =
    "# The forms of all inputs of tasks, checked by a test. `TASKS_LOCK=write cargo test` writes them anew.\n";

/// Panics if the inputs of these tasks are not as the file says: then tasks that wait, or that an older release enqueues, could not
/// be read. With `TASKS_LOCK=write` in the environment it writes the file instead; the forms of earlier versions stay in it.
///
/// A relative path is one from the crate's own folder. Some things cannot be seen, and are noted as `any`: flattened fields, enums that are
/// untagged or internally tagged, and what stands in a tuple behind a value that cannot be made up.
///
/// ```no_run
/// # #[aedb_worker::task] async fn charge(_: u64) {}
/// use aedb_worker::{tasks, testing};
///
/// # #[allow(clippy::test_attr_in_doctest)]
/// #[test]
/// fn tasks_that_wait_can_still_be_read() {
///     testing::assert_lock("tasks.lock", &tasks![charge]);
/// }
/// ```
///
/// # Panics
///
/// If an input has changed and its version has not, if a task is gone without an alias, if a task is new, and if the file cannot be
/// read. The message names all of them.
pub fn assert_lock(path: impl AsRef<Path>, tasks: &Tasks) {
    let path = path.as_ref();
    let today = Lock::of(tasks);
    let text = std::fs::read_to_string(path);
    let locked = Lock::read(text.as_deref().unwrap_or_default());
    if std::env::var_os(WRITE).is_some_and(|value| value == "write") {
        let written = std::fs::write(path, today.with_earlier(&locked).to_string());
        assert!(written.is_ok(), "{} cannot be written: {written:?}", path.display());
        return;
    }
    let mistakes = today.mistakes(&locked);
    assert!(
        mistakes.is_empty(),
        "{} does not fit the tasks of this program:\n{}\nIf this is as it should be: {WRITE}=write cargo test{}",
        path.display(),
        mistakes.join("\n"),
        text.err().map_or_else(String::new, |error| format!("\n(The file could not be read: {error})")),
    );
}

/// The lines of each version of each task, and the earlier names of tasks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lock {
    forms: BTreeMap<(String, u32), Vec<String>>,
    aliases: BTreeSet<String>,
}

impl Lock {
    fn of(tasks: &Tasks) -> Self {
        let mut lock = Self::default();
        for (name, registered) in &tasks.0 {
            if registered.is_alias {
                lock.aliases.insert(name.to_string());
            } else {
                let version = registered.defaults.version.unwrap_or(1);
                lock.forms.insert((name.to_string(), version), (registered.form)());
            }
        }
        lock
    }

    fn read(text: &str) -> Self {
        let (mut lock, mut at) = (Self::default(), None);
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let head =
                line.strip_prefix('[').and_then(|line| line.strip_suffix(']')).and_then(|head| head.rsplit_once(' '));
            match head.and_then(|(name, version)| Some((name.to_owned(), version.parse().ok()?))) {
                Some(head) => at = Some(lock.forms.entry(head).or_default()),
                None => at.iter_mut().for_each(|lines| lines.push(line.to_owned())),
            }
        }
        lock
    }

    fn has(&self, name: &str) -> bool {
        self.aliases.contains(name) || self.forms.keys().any(|(has, _)| has == name)
    }

    /// With the forms of earlier versions and names that may still come.
    fn with_earlier(mut self, locked: &Self) -> Self {
        for (key, lines) in &locked.forms {
            if self.has(&key.0) {
                self.forms.entry(key.clone()).or_insert_with(|| lines.clone());
            }
        }
        self
    }

    fn mistakes(&self, locked: &Self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for ((name, version), lines) in &self.forms {
            let latest = locked.forms.keys().filter(|(has, _)| has == name).map(|(_, version)| *version).max();
            match locked.forms.get(&(name.clone(), *version)) {
                _ if latest > Some(*version) => mistakes.push(format!("- {name}: its version has gone back to {version}")),
                Some(before) if before != lines => mistakes.push(format!(
                    "- {name}: its input has changed. Give it `version = {}` and `upgrade = function`, unless payloads of the earlier \
                     form can still be read{}",
                    version + 1,
                    difference(before, lines)
                )),
                Some(_) => {}
                None if latest.is_some() => mistakes.push(format!("- {name}: version {version} is new")),
                None => mistakes.push(format!("- {name}: the task is new")),
            }
        }
        let names: BTreeSet<_> = locked.forms.keys().map(|(name, _)| name).collect();
        for name in names.into_iter().filter(|name| !self.has(name)) {
            mistakes.push(format!("- {name}: no task has this name or alias, and tasks of it may still wait"));
        }
        mistakes
    }
}

fn difference(before: &[String], after: &[String]) -> String {
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("\n    - {line}"));
    let come = after.iter().filter(|line| !before.contains(line)).map(|line| format!("\n    + {line}"));
    gone.chain(come).collect()
}

impl std::fmt::Display for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HEAD)?;
        for ((name, version), lines) in &self.forms {
            write!(f, "\n[{name} {version}]\n")?;
            lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        }
        Ok(())
    }
}
