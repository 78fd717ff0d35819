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

/// How long a claim of 100 takes, with 100 enqueued before and completed after it so that the backlog stays.
fn claim(queue: &Queue) -> Duration {
    block_on(queue.enqueue_batch((0..100).map(|_| task()).collect())).unwrap();
    let start = Instant::now();
    let claimed = block_on(queue.claim(ClaimRequest::new("bench", LeaseLength::secs(60)).max(100))).unwrap();
    let took = start.elapsed();
    assert_eq!(claimed.len(), 100);
    let done = claimed.iter().map(|c| Settlement::new(c, Decision::Complete(Completion::new()))).collect();
    block_on(queue.settle(done)).unwrap();
    took
}

/// The same beside a backlog of the floor's: how much of the difference is redb's own.
fn floor_claim(floor: &mut Floor) -> Duration {
    floor.enqueue(100);
    let start = Instant::now();
    let ids = floor.claim(100);
    let took = start.elapsed();
    floor.complete(&ids);
    took
}

/// The median of each place. They take turns, so that a moment when the machine is busy slows all of them alike.
fn medians<T>(places: &mut [T], rounds: usize, mut measure: impl FnMut(&mut T) -> Duration) -> Vec<Duration> {
    let mut times = vec![Vec::new(); places.len()];
    for _ in 0..rounds {
        for (place, times) in places.iter_mut().zip(&mut times) {
            times.push(measure(place));
        }
    }
    times.iter_mut().for_each(|times| times.sort());
    times.iter().map(|times| times[times.len() / 2]).collect()
}

/// The largest beside the smallest.
fn spread(times: &[Duration]) -> f64 {
    times.iter().max().unwrap().as_secs_f64() / times.iter().min().unwrap().as_secs_f64()
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
    let (many, rounds) = if quick { (50_000, 20) } else { (1_000_000, 200) };
    let far = Duration::from_secs(365 * 24 * 3600);
    let backlogs = [(0, Duration::ZERO), (many / 10, Duration::ZERO), (many, Duration::ZERO), (many, far)];
    let mut queues = backlogs.map(|(count, delay)| {
        let path = file(folder, &format!("backlog-{count}-{}.db", delay.as_secs()));
        let queue = Db::open(&path).unwrap().queue("bench").unwrap();
        fill(&queue, count, delay);
        queue
    });
    let times = medians(&mut queues, rounds, |queue| claim(queue));
    drop(queues);
    let mut floors = [0, many].map(|count| {
        let mut floor = Floor::open(&file(folder, &format!("floor-backlog-{count}.db")));
        (0..count / 10_000).for_each(|_| drop(floor.enqueue(10_000)));
        floor
    });
    let floor_share = spread(&medians(&mut floors, rounds, floor_claim));
    drop(floors);
    let waiting = file(folder, "waiting.db");
    let filled = in_child(&waiting, many, true);
    let seen = in_child(&waiting, many, false);
    let share = spread(&times);
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
