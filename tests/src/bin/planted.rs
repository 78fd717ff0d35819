//! Plants each mistake of `aedb_tests::PLANTED` in a copy of the workspace, runs the tests there, and says which of them found it.
//!
//! `cargo run -p aedb-tests --bin planted` takes about half a minute for each; `-- 3 7` takes only those, `-- --test simulation` lets only that
//! test look for them. It fails if one is not found.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a tool of the tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use aedb_tests::{PLANTED, PLANTED_IN_SCHEDULES, Planted};

fn main() -> ExitCode {
    let asked: Vec<String> = env::args().skip(1).collect();
    let only = asked.iter().position(|word| word == "--test").map(|at| asked[at + 1].as_str());
    let chosen: Vec<usize> = asked.iter().filter_map(|number| number.parse().ok()).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let copy = root.join("target/planted");
    let mut unseen = 0;
    println!("| | planted | found by |");
    println!("|---|---|---|");
    for (number, mistake) in PLANTED.iter().chain(PLANTED_IN_SCHEDULES).enumerate() {
        if !chosen.is_empty() && !chosen.contains(&number) {
            continue;
        }
        copy_workspace(root, &copy);
        plant(&copy, mistake);
        let found = if number < PLANTED.len() {
            run_tests(&copy, &who_looks(mistake, only), "")
        } else {
            run_tests(&copy, &["-p", "aedb-queue", "-p", "aedb-worker", "--lib", "schedules"], "--cfg shuttle")
        };
        unseen += usize::from(found.is_empty());
        let by = match found.as_slice() {
            [] => "NOBODY".to_owned(),
            [one] => one.clone(),
            [one, more @ ..] => format!("{one} and {} more", more.len()),
        };
        println!("| {number} | {} | {by} |", mistake.what);
    }
    println!("\n{unseen} of the planted mistakes were not found");
    if unseen == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The sources, fresh; what was compiled before stays.
fn copy_workspace(root: &Path, copy: &Path) {
    fs::create_dir_all(copy).unwrap();
    for entry in [
        "aedb-macros",
        "aedb-queue",
        "aedb-worker",
        "examples",
        "tests",
        "Cargo.toml",
        "Cargo.lock",
        "clippy.toml",
        "README.md",
    ] {
        let _ = fs::remove_dir_all(copy.join(entry));
        copy_tree(&root.join(entry), &copy.join(entry));
    }
}

fn copy_tree(from: &PathBuf, to: &PathBuf) {
    if from.is_file() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy_tree(&entry.path(), &to.join(entry.file_name()));
    }
}

fn plant(copy: &Path, mistake: &Planted) {
    let file = copy.join(mistake.file);
    let source = fs::read_to_string(&file).unwrap();
    assert_eq!(source.matches(mistake.right).count(), 1, "{}: the right code has moved", mistake.what);
    fs::write(&file, source.replace(mistake.right, mistake.wrong)).unwrap();
}

/// The packages and tests that look for a mistake, as cargo wants to hear it.
fn who_looks<'a>(mistake: &Planted, only: Option<&'a str>) -> Vec<&'a str> {
    match only {
        Some(test) => vec!["-p", "aedb-tests", "--test", test],
        None if mistake.file.starts_with("aedb-worker") => {
            vec!["-p", "aedb-worker", "-p", "aedb-tests", "--test", "worker", "--test", "simulation"]
        }
        None => vec!["-p", "aedb-queue", "-p", "aedb-tests", "--lib", "--tests"],
    }
}

/// The names of the tests that failed. Those that look at the sources themselves would see any change, so they are left out.
fn run_tests(copy: &Path, looks: &[&str], flags: &str) -> Vec<String> {
    let ran = Command::new("cargo")
        .args(["test", "--quiet", "--no-fail-fast"])
        .args(looks)
        .args(["--", "--skip", "every_"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.join(if flags.is_empty() { "target" } else { "target/schedules" }))
        .env("RUSTFLAGS", flags)
        .env("AEDB_HISTORIES", "300")
        .env("AEDB_KILLS", "5")
        .env("AEDB_SEEDS", "300")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(!output.contains("could not compile"), "the planted code does not compile:\n{output}");
    let lines =
        output.lines().filter(|line| line.starts_with("    ") && !line.contains(' '.to_string().repeat(5).as_str()));
    let mut failed: Vec<_> = lines.map(|line| line.trim().to_owned()).filter(|name| is_test(name)).collect();
    failed.dedup();
    failed
}

/// Whether a line of cargo's list of failures is a test's name.
fn is_test(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':') && line.contains('_')
}
