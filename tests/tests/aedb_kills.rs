//! An AEDB folder whose process is killed again and again, with the safe way to open it, and without.

#![cfg(feature = "aedb")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aedb::AedbInstance;
use aedb_queue::{Db, Filter, NewTask, open_aedb};
use aedb_tests::instance::{self, config, runtime};
use aedb_tests::{Dice, tell};
use futures::executor::block_on;

const ROLE: &str = "AEDB_KILL_ROLE";
const FOLDER: &str = "AEDB_KILL_FOLDER";

fn safely(folder: &Path) -> Db {
    let instance = runtime().block_on(open_aedb(config(), folder, AedbInstance::open_anonymous)).unwrap();
    instance::attach(Db::builder(), instance)
}

/// The process that is killed: it says each task that was acknowledged.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    println!("begun");
    let db = match role.as_str() {
        "safe" => safely(&folder),
        _ => instance::attach(Db::builder(), instance::open(&folder, config())),
    };
    println!("open");
    for n in 0_u64.. {
        let task = NewTask::new("n", &n).unwrap();
        let id = block_on(db.queue("q").unwrap().enqueue(task)).unwrap().id;
        println!("task {}", id.as_u64());
        std::io::stdout().flush().unwrap();
    }
}

/// Starts a process, lets it say so many lines, and kills it. Answers the tasks that it said.
fn killed_after(role: &str, folder: &Path, lines: usize) -> Vec<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .envs([(ROLE, role.as_ref()), (FOLDER, folder.as_os_str())])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut tasks = Vec::new();
    for line in
        said.filter(|line| line.contains("begun") || line.contains("open") || line.contains("task ")).take(lines.max(1))
    {
        tasks.extend(line.rsplit_once("task ").map(|(_, id)| id.parse::<u64>().unwrap()));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    tasks
}

#[test]
fn every_kill_leaves_an_aedb_folder_that_opens_with_all_that_was_acknowledged() {
    let kills = std::env::var("AEDB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12);
    let folder = tempfile::tempdir().unwrap();
    let (mut dice, mut acknowledged) = (Dice::new(7), BTreeSet::new());
    for kill in 0..kills {
        if kill % 4 == 3 {
            // A clean end in between is what AEDB does not open after the next kill.
            let instance =
                runtime().block_on(open_aedb(config(), folder.path(), AedbInstance::open_anonymous)).unwrap();
            runtime().block_on(instance.shutdown()).unwrap();
        }
        let lines = dice.roll(40) as usize;
        let tasks = killed_after("safe", folder.path(), lines);
        assert!(lines < 3 || !tasks.is_empty(), "process {kill} did not open the folder");
        acknowledged.extend(tasks);
    }
    let db = safely(folder.path());
    let (mut seen, mut after) = (BTreeSet::new(), None);
    loop {
        let filter = Filter::default().after(after);
        let page = block_on(db.queue("q").unwrap().list(filter)).unwrap();
        seen.extend(page.tasks.iter().map(|task| task.id.as_u64()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(seen.is_superset(&acknowledged));
    tell(
        "kills of a process with an AEDB folder",
        &format!("{kills}, {} tasks acknowledged, none lost", acknowledged.len()),
    );
}

/// What AEDB 0.3.1 does by itself. If this fails, a newer AEDB may do without [`open_aedb`].
#[test]
fn every_kill_after_a_clean_end_makes_aedb_refuse_the_folder_if_it_is_opened_without_the_helper() {
    let folder = tempfile::tempdir().unwrap();
    let first = instance::open(folder.path(), config());
    runtime().block_on(first.create_project("p")).unwrap();
    runtime().block_on(first.shutdown()).unwrap();
    drop(first);
    assert!(!killed_after("plain", folder.path(), 5).is_empty());
    let _within = runtime().enter();
    let refused = AedbInstance::open_anonymous(config(), folder.path()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("segment hash chain mismatch"), "{refused}");
}
