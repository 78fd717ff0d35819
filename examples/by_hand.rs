//! Shows what `#[task]` writes for a function, written by hand: a type without fields that is its handler.
//! Run it with `cargo run --example by_hand`.

use std::time::Duration;

use aedb_queue::Db;
use aedb_worker::{Call, Defaults, Handler, Needs, Outcome, State, TaskContext, TaskError, Worker, task, tasks};

struct Greeting(&'static str);

/// With the attribute ...
#[task(name = "greet", queue = "mail", retry(max = 3), timeout = "5s")]
async fn greet(name: String, State(greeting): State<Greeting>) -> Result<usize, TaskError> {
    println!("{}, {name}!", greeting.0);
    Ok(name.len())
}

/// ... and by hand. An enqueue is then `Call::new(GreetByHand, &input)` instead of `greet::with(input)`.
#[derive(Default)]
struct GreetByHand;

impl Handler for GreetByHand {
    type Input = String;
    type Output = usize;

    fn name(&self) -> &str {
        "greet_by_hand"
    }

    fn defaults(&self) -> Defaults {
        Defaults::new().queue("mail").max_attempts(3).timeout(Duration::from_secs(5))
    }

    fn needs(&self, needs: &mut Needs<'_>) {
        needs.state::<Greeting>();
    }

    async fn run(&self, name: String, cx: TaskContext) -> Result<Outcome<usize>, TaskError> {
        greet(name, State(cx.state()?)).await.map(Outcome::done)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::memory()?;
    greet::enqueue(&db, "Ada".to_owned()).await?;
    Call::new(GreetByHand, &"Grace".to_owned()).to(&db).priority(5).await?;

    // Both are equals: in lists, in the checks of `build`, in a worker.
    let missing = Worker::builder(&db).tasks(tasks![greet, GreetByHand]).build();
    println!("{}", missing.err().map_or_else(String::new, |error| error.to_string()));
    let worker = Worker::builder(&db).tasks(tasks![greet, GreetByHand]).state(Greeting("Welcome")).concurrency(1);
    worker.build()?.drain().await?;
    println!("{} tasks are done", db.queue("mail")?.stats().await?.done);
    Ok(())
}
