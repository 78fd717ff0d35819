//! Shows a bulk import: rows go in by batches, a progress bar follows the queue, and bad rows end up in a list instead of stopping it.
//! Run it with `cargo run --release --example importer`; `-- 100000` imports more rows.

use std::path::Path;
use std::time::Duration;

use aedb_queue::{Db, Filter, Queue};
use aedb_worker::{TaskContext, TaskError, TaskResult, Worker, task, tasks};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

const FOLDER: &str = "importer-data";
const BATCH: usize = 1_000;

#[derive(Serialize, Deserialize)]
struct Row {
    line: usize,
    text: String,
}

/// Reads one row. What cannot be read will not be read better by trying again.
#[task(name = "import.row", unique(line), retry(max = 3))]
async fn import(row: Row, cx: TaskContext) -> Result<(), TaskError> {
    let (name, amount) = row.text.split_once(';').ok_or_else(|| TaskError::new("no `;` in it").fatal())?;
    let amount: u64 = amount.trim().parse().fatal()?;
    cx.effects().put(format!("row:{:08}", row.line), format!("{name}={amount}"));
    Ok(())
}

/// A file that somebody sent us, with mistakes in it.
fn rows(count: usize) -> impl Iterator<Item = Row> {
    (1..=count).map(|line| {
        let text = match line % 2_500 {
            0 => "a line without anything".to_owned(),
            1 => format!("customer {line}; many"),
            _ => format!("customer {line}; {}", line * 7),
        };
        Row { line, text }
    })
}

fn bar(count: usize, title: &'static str) -> Result<ProgressBar, Box<dyn std::error::Error>> {
    let style = ProgressStyle::with_template("{msg:10} [{bar:40}] {pos}/{len} {per_sec} {eta}")?.progress_chars("=> ");
    Ok(ProgressBar::new(count as u64).with_style(style).with_message(title))
}

async fn take_in(queue: &Queue, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let progress = bar(count, "taking in")?;
    let mut rows = rows(count).peekable();
    while rows.peek().is_some() {
        // Each batch is one commit. A row that an earlier run has taken in keeps its task: the line is its key.
        let batch: Vec<_> =
            rows.by_ref().take(BATCH).map(|row| import::with(row).into_task()).collect::<Result<_, _>>()?;
        progress.inc(batch.len() as u64);
        queue.enqueue_batch(batch).await?;
    }
    progress.finish();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(5_000), |count| count.parse())?;
    std::fs::create_dir_all(FOLDER)?;
    let db = Db::open(Path::new(FOLDER).join("import.db"))?;
    let queue = db.queue(import::QUEUE)?;
    take_in(&queue, count).await?;

    // Many short tasks: as many ahead as at once, so that claims and completions overlap.
    let worker = Worker::builder(&db).tasks(tasks![import]).concurrency(500).prefetch(500).build()?;
    let importing = tokio::spawn(worker.drain());
    let progress = bar(count, "importing")?;
    while !importing.is_finished() {
        let stats = queue.stats().await?;
        progress.set_position(stats.done + stats.dead);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    importing.await??;
    progress.finish();

    let stats = queue.stats().await?;
    println!("{} rows imported, {} cannot be:", stats.done, stats.dead);
    for task in queue.list(Filter::dead().limit(5)).await?.tasks {
        let row: Row = task.payload.to()?;
        let why = task.failures.last().map_or("", |failure| &*failure.error);
        println!("  line {}: {:?}: {why}", row.line, row.text);
    }
    println!("Run it again and nothing is imported twice; `rm -r {FOLDER}` starts afresh.");
    Ok(())
}
