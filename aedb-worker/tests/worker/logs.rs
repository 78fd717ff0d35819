//! What a worker says, and what it never says.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedb_queue::{Db, NewTask};
use aedb_worker::{Outcome, TaskContext, TaskError};
use tracing_subscriber::fmt::MakeWriter;

use crate::{on, task};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The worker speaks from its own thread too, so this listens for the whole process, to one database's tasks.
fn listen() -> Lines {
    static LINES: std::sync::OnceLock<Lines> = std::sync::OnceLock::new();
    LINES
        .get_or_init(|| {
            let lines = Lines::default();
            let subscriber = tracing_subscriber::fmt()
                .with_writer(lines.clone())
                .with_ansi(false)
                .with_max_level(tracing::Level::INFO);
            tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
            lines
        })
        .clone()
}

impl Lines {
    fn of(&self, name: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(name)).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_worker_is_silent_while_all_goes_well_and_never_tells_payloads() {
    let lines = listen();
    let db = crate::store::fresh(Db::builder());
    let queue = db.queue("q").unwrap();
    queue.enqueue(NewTask::new("silent", "a secret").unwrap()).await.unwrap();
    let silent = |_: String, _: TaskContext| async { Ok(Outcome::done("a secret")) };
    on(&db).handler("silent", silent).build().unwrap().drain().await.unwrap();
    assert!(lines.of("silent").is_empty(), "{:?}", lines.of("silent"));
    assert!(lines.of("a secret").is_empty());
}

#[tokio::test]
async fn failures_and_deaths_are_told_once_each_without_control_characters() {
    let lines = listen();
    let db = crate::store::fresh(Db::builder());
    db.queue("q").unwrap().enqueue(task("loud")).await.unwrap();
    let loud = |_: u32, _: TaskContext| async { Err::<Outcome, _>(TaskError::new("red \u{1b}[31m alert")) };
    on(&db).handler("loud", loud).build().unwrap().drain().await.unwrap();
    let told = lines.of("loud");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("attempt.fail") && told[1].contains("task.dead"), "{told:?}");
    assert!(told.iter().all(|line| !line.contains('\u{1b}')), "{told:?}");
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_is_named() {
    let lines = listen();
    let db = crate::store::fresh(Db::builder());
    db.queue("q").unwrap().enqueue(task("blocker")).await.unwrap();
    let block = |_: u32, _: TaskContext| {
        std::thread::sleep(Duration::from_millis(1_500));
        std::future::ready(Ok(Outcome::done(())))
    };
    on(&db).handler("blocker", block).build().unwrap().drain().await.unwrap();
    let told = lines.of("blocker");
    assert!(told.len() == 1 && told[0].contains("handler.blocks"), "{told:?}");
}
