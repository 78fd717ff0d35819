//! What `#[task]` costs the compiler: a crate of fifty tasks beside the same fifty handlers written by hand.
//!
//! `cargo run -p aedb-tests --bin compile_time` makes both below `target/`, checks each five times in turn, and prints the ratio of the medians;
//! wanted: at most 1.5.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods, reason = "a tool of the tests")]

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const TASKS: usize = 50;
const ROUNDS: usize = 5;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let place = root.join("target/compile-time");
    let (by_macro, by_hand) = (place.join("by-macro"), place.join("by-hand"));
    make(root, &by_macro, "by-macro", &with_attribute());
    make(root, &by_hand, "by-hand", &without_attribute());
    // Everything that both depend on, before.
    check(&place, &by_macro);
    check(&place, &by_hand);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(check(&place, &by_macro));
        theirs.push(check(&place, &by_hand));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{TASKS} tasks: {ours:.2?} with #[task], {theirs:.2?} by hand: {ratio:.2} (wanted: 1.5)");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn make(root: &Path, folder: &Path, name: &str, source: &str) {
    fs::create_dir_all(folder.join("src")).unwrap();
    let worker = root.join("aedb-worker");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\n[workspace]\n[dependencies]\naedb-worker = {{ path = {:?} }}\n\
         aedb-queue = {{ path = {:?} }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n",
        worker,
        root.join("aedb-queue")
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    fs::write(folder.join("src/lib.rs"), source).unwrap();
}

/// The time that the compiler takes for the crate alone.
fn check(place: &Path, folder: &Path) -> Duration {
    let source = folder.join("src/lib.rs");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text).unwrap(); // newer than what was compiled
    let start = Instant::now();
    let ran = Command::new("cargo")
        .args(["build", "--quiet", "--offline"])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", place.join("target"))
        .env("CARGO_INCREMENTAL", "0")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    start.elapsed()
}

const HEAD: &str = "use aedb_worker::*;\nuse serde::{Deserialize, Serialize};\n";

fn with_attribute() -> String {
    let mut source = HEAD.to_owned();
    for n in 0..TASKS {
        write!(
            source,
            "#[derive(Serialize, Deserialize)]\npub struct In{n} {{ number: u64 }}\n\
             #[task(name = \"task.{n}\", queue = \"q\", retry(max = 3), timeout = \"5s\")]\n\
             pub async fn task_{n}(input: In{n}, cx: TaskContext) -> Result<Outcome<u64>, TaskError> {{\n\
             cx.checkpoint(&input.number).await?;\nOk(Outcome::done(input.number))\n}}\n"
        )
        .unwrap();
    }
    let all: Vec<_> = (0..TASKS).map(|n| format!("task_{n}")).collect();
    writeln!(source, "pub fn all() -> Tasks {{ tasks![{}] }}", all.join(", ")).unwrap();
    source
}

fn without_attribute() -> String {
    let mut source = format!("{HEAD}use std::time::Duration;\n");
    for n in 0..TASKS {
        write!(
            source,
            "#[derive(Serialize, Deserialize)]\npub struct In{n} {{ number: u64 }}\n\
             #[derive(Clone, Copy, Debug, Default)]\npub struct Task{n};\n\
             impl Handler for Task{n} {{\ntype Input = In{n};\ntype Output = u64;\n\
             fn name(&self) -> &str {{ \"task.{n}\" }}\n\
             fn defaults(&self) -> Defaults {{ Defaults::new().queue(\"q\").max_attempts(3).timeout(Duration::from_secs(5)) }}\n\
             async fn run(&self, input: In{n}, cx: TaskContext) -> Result<Outcome<u64>, TaskError> {{\n\
             cx.checkpoint(&input.number).await?;\nOk(Outcome::done(input.number))\n}}\n}}\n\
             impl Task{n} {{\npub fn with(input: In{n}) -> Call<Self> {{ Call::new(Self, &input) }}\n\
             pub fn enqueue(to: &impl Target, input: In{n}) -> Enqueue<'_, Self> {{ Self::with(input).to(to) }}\n}}\n"
        )
        .unwrap();
    }
    let all: Vec<_> = (0..TASKS).map(|n| format!(".with(Task{n})")).collect();
    writeln!(source, "pub fn all() -> Tasks {{ Tasks::new(){} }}", all.join("")).unwrap();
    source
}
