//! Shows checkpoints: a long task records how far it is, and goes on from there when its process was killed.
//! Run it with `cargo run --example checkpoints`, kill it half way (Ctrl-C or `kill -9`), and run it again.

use std::path::Path;
use std::time::Duration;

use aedb_queue::{Db, StateKind};
use aedb_worker::{Outcome, Progress, TaskContext, TaskError, Worker, task, tasks};
use serde::{Deserialize, Serialize};

const FOLDER: &str = "checkpoints-data";
const PAGES: u64 = 20;

/// How far the task is: everything that it needs to go on.
#[derive(Serialize, Deserialize, Default)]
struct Read {
    pages: u64,
    words: u64,
}

/// Reads a book page by page. Only the book's own key keeps it from being read twice.
#[task(queue = "books", unique(book), lease = "1s")]
async fn read(input: Book, Progress(read): Progress<Read>, cx: TaskContext) -> Result<Outcome<u64>, TaskError> {
    let mut read = read.unwrap_or_default();
    println!("{}: delivery {}, going on after page {}", input.book, cx.deliveries(), read.pages);
    while read.pages < PAGES {
        tokio::time::sleep(Duration::from_millis(100)).await; // the reading itself
        read = Read { pages: read.pages + 1, words: read.words + 300 + read.pages };
        cx.checkpoint(&read).await?; // durable when it returns, and refused if somebody else has the lease by now
        println!("  page {} of {PAGES}", read.pages);
    }
    Ok(Outcome::done(read.words).put(format!("words:{}", input.book), read.words.to_string()))
}

#[derive(Serialize, Deserialize)]
struct Book {
    book: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(FOLDER)?;
    let db = Db::open(Path::new(FOLDER).join("books.db"))?;
    let enqueued = read::enqueue(&db, Book { book: "moby-dick".to_owned() }).await?;
    if enqueued.deduplicated {
        println!("an earlier run has enqueued it; a killed one's lease ends within a second");
    }

    let worker = Worker::builder(&db).tasks(tasks![read]).lease(Duration::from_secs(1)).build()?;
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let ended = db.queue("books")?.wait_for(enqueued.id, Duration::from_secs(60)).await?;
    handle.shutdown();
    running.await??;

    let Some(record) = ended.finished().filter(|record| record.state.kind() == StateKind::Done) else {
        return Err("it was not finished within a minute".into());
    };
    let words = record.result.map(|words| words.to::<u64>()).transpose()?;
    println!("{} words in {} deliveries", words.unwrap_or(0), record.counters.deliveries);
    println!("`rm -r {FOLDER}` starts afresh");
    Ok(())
}
