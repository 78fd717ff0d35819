// One mistake, one message: whoever uses the task is not blamed.
use aedb_queue::Db;
use aedb_worker::{Outcome, Worker, task, tasks};

#[task(timeout = "never")]
async fn slow(_: u64) {}

#[task(follow_ups(slow))]
async fn broken(name: &str) -> Outcome<()> {
    println!("{name}");
    Outcome::done(()).then(broken::slow(1))
}

#[task(follow_ups(broken))]
async fn parent(_: u64) {}

async fn program(db: &Db) -> aedb_queue::Result<()> {
    broken::enqueue(db, "ada").await?;
    slow::enqueue(db, 7).await?;
    Worker::builder(db).tasks(tasks![slow, broken, parent]).build()?.run().await
}

fn main() {
    let _ = program;
}
