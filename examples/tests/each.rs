//! Each example runs and shows what it says that it shows.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The example. Cargo builds examples beside the tests, but for those whose own tests it builds instead.
fn example(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let built = deps.parent().unwrap().with_file_name("examples").join(name);
    let path = built.with_extension(std::env::consts::EXE_EXTENSION);
    if !path.exists() {
        let built =
            Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "examples", "--example", name]).status();
        assert!(built.unwrap().success() && path.exists(), "{} is missing", path.display());
    }
    path
}

fn run(name: &str, folder: &Path) -> String {
    let ran = Command::new(example(name)).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Runs an example; its output has these lines, in this order.
fn shows(name: &str, lines: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let output = run(name, folder.path());
    let mut rest = &*output;
    for line in lines {
        let at = rest.find(line).unwrap_or_else(|| panic!("{name} does not show {line:?} where it should:\n{output}"));
        rest = &rest[at + line.len()..];
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{name} leaves files");
}

#[test]
fn by_hand_is_the_equal_of_the_attribute() {
    let missing = "greet needs a state of type by_hand::Greeting";
    let missing_by_hand = "greet_by_hand needs a state of type by_hand::Greeting";
    shows("by_hand", &[missing, missing_by_hand, "Welcome, Grace!", "Welcome, Ada!", "2 tasks are done"]);
}

#[test]
fn outbox_stores_an_order_and_its_task_or_neither() {
    shows("outbox", &["refused: ", "2 tasks wait", "2 orders, 2 confirmed"]); // the two mails run side by side
}

#[test]
fn retries_and_dead_letters_retries_gives_up_and_revives() {
    let given_up = ["attempt 3 to transfer 250", "2 are dead:", "the bank does not answer"];
    let revived = ["revived \"250\": true", "attempt 4 to transfer 250", "2 done, 0 dead"];
    shows("retries_and_dead_letters", &[given_up, revived].concat());
}

#[test]
fn follow_ups_chain_and_fan_out() {
    let graph = ["charge -> receipt, pack", "order -> charge", "flowchart LR"];
    shows("follow_ups", &[&graph[..], &["charged 300 cents", "3 parcels"]].concat());
}

#[test]
fn delayed_and_timer_waits_in_every_way() {
    let begin = ["a second timer is refused: true", "parcel is not there yet"];
    shows("delayed_and_timer", &[&begin[..], &["tick, 2 left", "parcel is there", "4 done"]].concat());
    shows("delayed_and_timer", &["after 100 ms", "at 20", "tick, 0 left"]);
}

#[test]
fn a_leader_that_slept_too_long_cannot_write() {
    let first = ["node-a, round 1: Applied", "node-b waits", "node-b, round 2: Applied"];
    shows("leader", &[&first[..], &["node-a, round 3: LeaseLost", "the last round was 4 by node-a"]].concat());
}

#[test]
fn unit_test_is_a_program_too() {
    shows("unit_test", &["1 done"]);
}

#[test]
fn checkpoints_goes_on_where_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut child =
        Command::new(example("checkpoints")).current_dir(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("page 5 of 20")), "it ended before it could be killed");
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    // More pages may have been read before the kill came; none is read twice.
    let killed_after = lines.filter(|line| line.contains(" of 20")).count() + 5;

    let output = run("checkpoints", folder.path());
    let after = output.split_once("delivery 2, going on after page ").unwrap().1.split_once('\n').unwrap().0;
    let after: usize = after.parse().unwrap();
    assert!((killed_after..=killed_after + 1).contains(&after), "{killed_after}: {output}");
    assert_eq!(output.matches(" of 20").count(), 20 - after);
    assert!(output.contains("6190 words in 2 deliveries"), "{output}");
}

#[test]
fn axum_service_stops_in_order() {
    let visit = ["placed: task", "again:  task", "asked:  ", "stopping", "order 7 is packed"];
    shows("axum_service", &visit);
}

#[test]
fn outbox_dispatcher_loses_nothing_when_it_is_killed() {
    let summary =
        ["is killed after", "300 of 300 events arrived", "60 of 60 orders heard of their states in the right order"];
    shows("outbox_dispatcher", &summary);
}

#[test]
fn importer_imports_every_good_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = run("importer", folder.path());
    assert!(output.contains("4996 rows imported, 4 cannot be:"), "{output}");
    assert!(output.contains("line 2500: \"a line without anything\": no `;` in it"), "{output}");
    let again = run("importer", folder.path());
    assert!(again.contains("4996 rows imported, 4 cannot be:"), "{again}");
}
