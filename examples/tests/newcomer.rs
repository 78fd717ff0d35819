//! The README's first steps, taken: an empty crate, what it says, and a task that ran.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The text between a fence of this kind and the next, the first after a heading.
fn block<'a>(text: &'a str, heading: &str, fence: &str) -> &'a str {
    let (_, text) = text.split_once(heading).unwrap();
    let (_, text) = text.split_once(&format!("```{fence}\n")).unwrap();
    text.split_once("```").unwrap().0
}

#[test]
fn a_newcomer_has_a_task_that_ran_in_under_forty_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let heading = "## From an empty crate to a task that ran";
    let (manifest, program) = (block(&readme, heading, "toml"), block(&readme, heading, "rust,no_run"));
    assert!(manifest.lines().count() + program.lines().count() < 40);

    let folder = tempfile::tempdir().unwrap();
    // Until the crates are published, their versions are this workspace's folders.
    let path = |name: &str| format!("{name} = {{ path = {:?} }}", root.join(name));
    let here = |text: String, name: &str| text.replace(&format!("{name} = \"0.1\""), &path(name));
    let manifest = here(here(manifest.to_owned(), "aedb-queue"), "aedb-worker");
    let head = "[package]\nname = \"newcomer\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(folder.path().join("Cargo.toml"), format!("{head}{manifest}")).unwrap();
    fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/main.rs"), program).unwrap();
    let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().join("newcomer");
    let run = || {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet"]).current_dir(folder.path()).env("CARGO_TARGET_DIR", &target);
        let ran = cargo.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    assert_eq!(run(), "Hello, Ada!\n");
    assert!(folder.path().join("app.db").exists());
}
