//! From one process to another: an enqueue in this one, a claim that waits in the other, on one file.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use aedb_queue::{ClaimRequest, Completion, Db, LeaseLength};
use futures::executor::block_on;
use tempfile::TempDir;

use crate::{Row, file, task};

/// Claims one task after the other, and says at which microsecond each claim returned.
pub(crate) fn child(path: &Path) {
    let queue = Db::open(path).unwrap().queue("bench").unwrap();
    let request = ClaimRequest::new("bench", LeaseLength::secs(60)).wait(Duration::from_secs(600));
    println!("open");
    while let Some(claim) = block_on(queue.claim(request.clone())).unwrap().pop() {
        println!("{}", queue.now().as_micros());
        assert!(block_on(queue.complete(&claim, Completion::new())).unwrap().is_applied());
    }
}

pub(crate) fn run(folder: &TempDir, quick: bool) -> Vec<Row> {
    let rounds = if quick { 20 } else { 200 };
    let path = file(folder, "handover.db");
    let queue = Db::open(&path).unwrap().queue("bench").unwrap();
    let mut claimer = Command::new(std::env::current_exe().unwrap())
        .arg("--claimer")
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(claimer.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    let (mut took, mut random) = (Vec::new(), 88_172_645_463_325_252_u64);
    for _ in 0..rounds {
        // Any moment between two looks of the other process is as likely as any other (xorshift64, Marsaglia 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(20_000 + random % 60_000));
        block_on(queue.enqueue(task())).unwrap();
        let enqueued = queue.now().as_micros();
        let claimed: u64 = lines.next().unwrap().unwrap().parse().unwrap();
        took.push(Duration::from_micros(claimed.saturating_sub(enqueued)));
    }
    claimer.kill().unwrap();
    claimer.wait().unwrap();
    took.sort();
    let (median, late) = (took[rounds / 2], took[rounds * 99 / 100]);
    vec![Row(
        "from an enqueue in one process to the claim in another, p50 and p99".into(),
        format!("{:.1} and {:.1} ms", median.as_secs_f64() * 1e3, late.as_secs_f64() * 1e3),
        "50 ms".into(),
    )]
}
