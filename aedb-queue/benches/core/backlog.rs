//! A million tasks: what a claim costs in front of them, and memory, opening and closing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aedb_queue::{ClaimRequest, Completion, Db, Decision, LeaseLength, Queue, Settlement};
use futures::executor::block_on;
use tempfile::TempDir;

use crate::floor::Floor;
use crate::{Row, file, task};

fn fill(queue: &Queue, count: usize, delay: Duration) {
    for done in (0..count).step_by(10_000) {
        block_on(queue.enqueue_batch((0..10_000.min(count - done)).map(|_| task().delay(delay)).collect())).unwrap();
    }
}

/// The median time of a claim of 100, with 100 enqueued and completed around it so that the backlog stays.
fn claim(queue: &Queue, rounds: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds {
        block_on(queue.enqueue_batch((0..100).map(|_| task()).collect())).unwrap();
        let start = Instant::now();
        let claimed = block_on(queue.claim(ClaimRequest::new("bench", LeaseLength::secs(60)).max(100))).unwrap();
        times.push(start.elapsed());
        assert_eq!(claimed.len(), 100);
        let done = claimed.iter().map(|c| Settlement::new(c, Decision::Complete(Completion::new()))).collect();
        block_on(queue.settle(done)).unwrap();
    }
    times.sort();
    times[times.len() / 2]
}

/// The same beside a backlog of the floor's: how much of the difference is redb's own.
fn floor_claim(floor: &mut Floor, rounds: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds {
        floor.enqueue(100);
        let start = Instant::now();
        let ids = floor.claim(100);
        times.push(start.elapsed());
        floor.complete(&ids);
    }
    times.sort();
    times[times.len() / 2]
}

/// Opens a database, fills it if it is empty, says how that went, and waits to be killed or told to close.
pub(crate) fn child(path: &Path, count: usize) {
    let start = Instant::now();
    let db = Db::open(path).unwrap();
    let queue = db.queue("bench").unwrap();
    let ready = block_on(queue.stats()).unwrap().ready;
    println!("{}", start.elapsed().as_micros());
    if ready == 0 {
        fill(&queue, count, Duration::ZERO);
    }
    assert_eq!(block_on(queue.stats()).unwrap().ready, count as u64);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    println!("{}", memory.split_whitespace().next().unwrap_or("0"));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let start = Instant::now();
    drop((db, queue));
    println!("{}", start.elapsed().as_micros());
}

struct Seen {
    opened: Duration,
    peak_kib: u64,
    closed: Option<Duration>,
}

fn in_child(path: &Path, count: usize, kill: bool) -> Seen {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg(format!("--child={count}"))
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut number = || lines.next().unwrap().unwrap().parse::<u64>().unwrap();
    let (opened, peak_kib) = (Duration::from_micros(number()), number());
    if kill {
        child.kill().unwrap();
        child.wait().unwrap();
        return Seen { opened, peak_kib, closed: None };
    }
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let closed = Duration::from_micros(number());
    child.wait().unwrap();
    Seen { opened, peak_kib, closed: Some(closed) }
}

pub(crate) fn run(folder: &TempDir, quick: bool) -> Vec<Row> {
    let (many, rounds) = if quick { (50_000, 10) } else { (1_000_000, 60) };
    let path = file(folder, "backlog.db");
    let open = |path: &Path| Db::open(path).unwrap();
    let db = open(&path);
    let queue = db.queue("bench").unwrap();
    let mut times = vec![claim(&queue, rounds)];
    fill(&queue, many / 10, Duration::ZERO);
    times.push(claim(&queue, rounds));
    fill(&queue, many - many / 10, Duration::ZERO);
    times.push(claim(&queue, rounds));
    let scheduled = open(&file(folder, "scheduled.db"));
    let far = scheduled.queue("bench").unwrap();
    fill(&far, many, Duration::from_secs(365 * 24 * 3600));
    times.push(claim(&far, rounds));
    drop((db, queue, scheduled, far));
    let mut floor = Floor::open(&file(folder, "floor-backlog.db"));
    let floor_least = floor_claim(&mut floor, rounds);
    (0..many / 10_000).for_each(|_| drop(floor.enqueue(10_000)));
    let floor_share = floor_claim(&mut floor, rounds).as_secs_f64() / floor_least.as_secs_f64();
    let waiting = file(folder, "waiting.db");
    let filled = in_child(&waiting, many, true);
    let seen = in_child(&waiting, many, false);
    let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    let share = most.as_secs_f64() / least.as_secs_f64();
    vec![
        Row(
            format!("claim of 100 with 0, {}, {many} ready, {many} scheduled", many / 10),
            format!(
                "{} µs, the largest {share:.2} of the smallest (redb alone: {floor_share:.2})",
                times.iter().map(|t| t.as_micros().to_string()).collect::<Vec<_>>().join(", ")
            ),
            "1.5".into(),
        ),
        Row(
            format!("{many} waiting: peak memory of the process that enqueued them, cache of 64 MiB included"),
            format!("{} MiB", filled.peak_kib / 1024),
            "150 MB and the cache".into(),
        ),
        Row(format!("{many} waiting: opened after kill -9"), format!("{:.1?}", seen.opened), "100 ms".into()),
        Row(format!("{many} waiting: clean close"), format!("{:.1?}", seen.closed.unwrap_or_default()), "1 s".into()),
    ]
}
