//! The quickstart's promise, tried: killed twice, it ships every order once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aedb_queue::{Db, Filter, KeyRange, StateKind};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order: u64,
    quantity: i64,
    cents: i64,
}

/// The example, which cargo builds beside the tests.
fn quickstart() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let built = deps.parent().unwrap().with_file_name("examples").join("quickstart");
    let path = built.with_extension(std::env::consts::EXE_EXTENSION);
    assert!(path.exists(), "{} is missing: cargo build --example quickstart", path.display());
    path
}

/// Runs it in a folder, up to the first report of so many shipped orders: then kills it, as `kill -9` does.
fn run_until_shipped(folder: &Path, shipped: u64) {
    let mut child = Command::new(quickstart()).current_dir(folder).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reported = |line: &str| line.split_once(" shipped, ")?.0.trim().parse::<u64>().ok();
    let reached = lines.map(Result::unwrap).any(|line| reported(&line).is_some_and(|count| count >= shipped));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success() && reached, "it ended before it could be killed");
}

fn run_to_the_end(folder: &Path) -> String {
    let ran = Command::new(quickstart()).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test]
async fn killed_twice_half_way_it_ships_every_order_once() {
    let folder = tempfile::tempdir().unwrap();
    run_until_shipped(folder.path(), 1);
    run_until_shipped(folder.path(), 150);
    let output = run_to_the_end(folder.path());
    assert!(output.contains("0 orders taken in, 300 were there from an earlier run"), "{output}");

    let db = Db::open(folder.path().join("quickstart-data/shop.db")).unwrap();
    let orders = include_str!("../orders.jsonl").lines().map(|line| serde_json::from_str::<Order>(line).unwrap());
    let good = orders.filter(|order| order.quantity > 0);
    let due: BTreeMap<_, _> =
        good.map(|o| (format!("shipped:{}", o.order), (o.quantity * o.cents).to_string())).collect();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let shipped = db.default_scope().kv().scan(KeyRange::prefix("shipped:")).await.unwrap();
    assert_eq!(shipped.into_iter().map(|(key, total)| (text(key), text(total))).collect::<BTreeMap<_, _>>(), due);

    // Each commit of a shipment makes one receipt task, and a second shipment would have left a failure of its own.
    let queue = db.queue("shop").unwrap();
    let page = queue.list(Filter::all()).await.unwrap();
    assert!(page.next.is_none());
    let (mut fulfilled, mut receipts, mut interrupted, mut dead) = (0, 0, 0, Vec::new());
    for task in page.tasks {
        interrupted += u32::from(task.counters.lost_leases > 0);
        match (&*task.name, task.state.kind()) {
            ("fulfil", StateKind::Done) => fulfilled += 1,
            ("receipt", StateKind::Done) => receipts += 1,
            _ => dead.push(task.payload.to::<Order>().unwrap().order),
        }
        let known = ["the packing robot dropped it", "-4 of chair cannot be packed"];
        assert!(task.failures.iter().all(|failure| known.contains(&&*failure.error)), "{:?}", task.failures);
    }
    assert_eq!((fulfilled, receipts, dead), (299, 299, vec![1137]));
    assert!(interrupted > 0, "no task was under way at either kill");
    assert!(queue.check().await.unwrap().is_clean());
    drop(db);

    let again = run_to_the_end(folder.path());
    assert!(
        again.contains("All of them were finished by an earlier run; `rm -r quickstart-data` starts afresh"),
        "{again}"
    );
}
