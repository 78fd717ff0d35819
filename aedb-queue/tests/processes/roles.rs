//! What the processes do.

use std::path::Path;
use std::time::Duration;

use aedb_queue::{ClaimRequest, Completion, Db, Decision, Effects, LeaseLength, NewTask, Retry, Settlement};
use futures::executor::block_on;

pub(crate) const ROLE: &str = "AEDB_CRASH_ROLE";
pub(crate) const FILE: &str = "AEDB_CRASH_FILE";

/// Not a test of its own: what the other tests start as processes to kill. Without a role it has nothing to do.
#[test]
fn child() {
    let (Ok(role), Ok(file)) = (std::env::var(ROLE), std::env::var(FILE)) else { return };
    let go = Path::new(&file).with_extension("go");
    let db = Db::open(file).unwrap();
    println!("\nopen");
    match role.as_str() {
        "produce" => produce(&db),
        "work" => work(&db),
        "fill" => fill(&db),
        "hold" => hold(&db, &go),
        "one-key" => one_key(&db, &go),
        "attempt" => attempt(&db),
        "answer" => answer(&db),
        other => panic!("unknown role {other}"),
    }
}

/// Enqueues for ever, each task with an order in the same commit, and says each id once it is acknowledged.
fn produce(db: &Db) {
    let queue = db.queue("q").unwrap();
    for n in 0_u64.. {
        let key = format!("order:{}:{n}", std::process::id());
        let task = NewTask::new("n", &key).unwrap().idempotency_key(key.as_str());
        let outcome = block_on(queue.enqueue_with(task, Effects::new().put(key.as_str(), "placed"))).unwrap();
        println!("enqueued {} {key}", outcome.id);
    }
}

/// Works for ever: each completion counts the task's runs in a key, and fails if the count was there before.
fn work(db: &Db) {
    let queue = db.queue("q").unwrap();
    let request = ClaimRequest::new(format!("w{}", std::process::id()), LeaseLength::secs(1))
        .max(20)
        .wait(Duration::from_millis(200));
    loop {
        let claimed = block_on(queue.claim(request.clone())).unwrap();
        let items = claimed
            .iter()
            .map(|task| {
                println!("claimed {} {}", task.id, task.token);
                let key = format!("ran:{}", task.id);
                let effects = Effects::new().assert_absent(key.as_str()).put(key.as_str(), "once");
                let next = NewTask::new("after", &task.id.as_u64()).unwrap();
                Settlement::new(task, Decision::Complete(Completion::new().effects(effects).follow_up("after", next)))
            })
            .collect();
        for (task, answer) in claimed.iter().zip(block_on(queue.settle(items)).unwrap()) {
            if answer.expect("a completion ran twice").is_applied() {
                println!("completed {}", task.id);
            }
        }
    }
}

/// Enqueues until the disk refuses, and says what it was told then and afterwards.
fn fill(db: &Db) {
    let queue = db.queue("q").unwrap();
    let payload = "x".repeat(100_000);
    let error = loop {
        match block_on(queue.enqueue(NewTask::new("n", &payload).unwrap())) {
            Ok(outcome) => println!("enqueued {}", outcome.id),
            Err(error) => break error,
        }
    };
    println!("refused {:?}: {error}", error.kind());
    let later = block_on(queue.enqueue(NewTask::new("n", &1).unwrap())).unwrap_err();
    println!("later {:?}: {later}", later.kind());
}

/// Claims one task, says so, and completes it only when the file `go` is there: a zombie, however slow the machine. It does
/// not touch the database meanwhile: a process that is stopped inside of one of redb's file locks keeps that lock.
fn hold(db: &Db, go: &Path) {
    let queue = db.queue("q").unwrap();
    let task = block_on(queue.claim(ClaimRequest::new("zombie", LeaseLength::secs(1)))).unwrap().remove(0);
    println!("holds {}", task.id);
    wait_for_file(go);
    let effects = Effects::new().put(format!("ran:{}", task.id), "by the zombie");
    println!("answer {:?}", block_on(queue.complete(&task, Completion::new().effects(effects))).unwrap());
}

fn wait_for_file(go: &Path) {
    while !go.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Fifty threads that enqueue one key once the file `go` is there, and say what they were answered.
fn one_key(db: &Db, go: &Path) {
    let ready = std::sync::Barrier::new(51);
    std::thread::scope(|scope| {
        for n in 0..50 {
            let (queue, ready) = (db.queue("q").unwrap(), &ready);
            scope.spawn(move || {
                ready.wait();
                wait_for_file(go);
                match block_on(queue.enqueue(NewTask::new("n", &1).unwrap().idempotency_key("k"))) {
                    Ok(outcome) => println!("answer {} {}", outcome.id, outcome.deduplicated),
                    Err(error) => println!("error of {n}: {error}"),
                }
            });
        }
        ready.wait();
        println!("ready");
    });
}

/// Claims one task for a second and works on it for ever: each heartbeat keeps it for a second more.
fn attempt(db: &Db) {
    let (queue, lease) = (db.queue("q").unwrap(), LeaseLength::secs(1));
    let request = ClaimRequest::new("doomed", lease).wait(Duration::from_secs(60));
    let task = block_on(queue.claim(request)).unwrap().remove(0);
    println!("claimed {}", task.id);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        // On a machine that stood still for a second the lease is lost before the kill; then there is nothing to keep.
        let _ = block_on(queue.heartbeat(&task, lease, None)).unwrap();
        println!("beat");
    }
}

/// Completes or fails one task after the other, as their payloads say.
fn answer(db: &Db) {
    let queue = db.queue("q").unwrap();
    let request = ClaimRequest::new("answers", LeaseLength::secs(30)).wait(Duration::from_secs(60));
    while let Some(task) = block_on(queue.claim(request.clone())).unwrap().pop() {
        if task.payload.as_str() == "\"fail\"" {
            assert!(block_on(queue.fail_with(&task, "as told", Retry::Fatal)).unwrap().is_applied());
        } else {
            assert!(
                block_on(queue.complete(&task, Completion::new().result(task.payload.clone()))).unwrap().is_applied()
            );
        }
        println!("ended {}", task.id);
    }
}
