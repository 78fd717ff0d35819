//! Shows a web service and its worker in one process, and how both stop in order: no request and no task is cut off.
//! Run it with `cargo run --example axum_service`; `-- serve` keeps it up until Ctrl-C, at <http://127.0.0.1:3000>.

use std::time::Duration;

use aedb_queue::{Db, Effects, TaskId};
use aedb_worker::{TaskContext, TaskError, Worker, WorkerHandle, task, tasks};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    item: String,
}

#[task(name = "order.pack", unique(number), retry(max = 5, base = "1s"))]
async fn pack(order: Order, cx: TaskContext) -> Result<String, TaskError> {
    tokio::time::sleep(Duration::from_millis(200)).await; // the packing itself
    cx.effects().put(format!("order:{}", order.number), "packed");
    Ok(format!("{} is packed", order.item))
}

/// Stores an order and its task in one commit; the same order again gets the same task.
async fn place(State(db): State<Db>, Json(order): Json<Order>) -> Result<(StatusCode, String), (StatusCode, String)> {
    let placed = Effects::new().put(format!("order:{}", order.number), "placed");
    let unavailable = |error: aedb_queue::Error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    let task = pack::enqueue(&db, order).effects(placed).await.map_err(unavailable)?;
    Ok((StatusCode::ACCEPTED, task.id.to_string()))
}

/// Where an order is, in words.
async fn explain(State(db): State<Db>, Path(id): Path<u64>) -> Result<String, (StatusCode, String)> {
    let explained = async { db.queue(pack::QUEUE)?.explain(TaskId::from_u64(id)).await };
    explained.await.map(|why| why.to_string()).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Ready while the worker's claim loop is polling: what a load balancer asks.
async fn ready(State(worker): State<WorkerHandle>) -> StatusCode {
    if worker.health().ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn routes(db: Db, worker: WorkerHandle) -> Router {
    let orders = Router::new().route("/orders", post(place)).route("/tasks/{id}", get(explain)).with_state(db);
    orders.merge(Router::new().route("/ready", get(ready)).with_state(worker))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stays = std::env::args().any(|argument| argument == "serve");
    let db = Db::memory()?;
    let worker = Worker::builder(&db).tasks(tasks![pack]).grace(Duration::from_secs(5)).build()?;
    let handle = worker.handle();
    let listener = TcpListener::bind(if stays { "127.0.0.1:3000" } else { "127.0.0.1:0" }).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}; POST /orders, GET /tasks/{{id}}, GET /ready");

    let stop = async move {
        if stays {
            let _ = tokio::signal::ctrl_c().await;
        } else {
            visit(&address.to_string()).await.unwrap_or_else(|error| println!("the visit failed: {error}"));
        }
        println!("stopping: no more requests are taken");
    };
    let running = tokio::spawn(worker.run());
    // First the requests end, which may still enqueue; then the worker, which finishes what it has begun.
    axum::serve(listener, routes(db.clone(), handle.clone())).with_graceful_shutdown(stop).await?;
    handle.shutdown();
    running.await??;
    let order = db.default_scope().kv().get("order:7").await?.unwrap_or_default();
    println!(
        "order 7 is {}; whatever was not done is in the queue for the next start",
        String::from_utf8_lossy(&order)
    );
    Ok(())
}

/// A customer, so that the example shows something by itself.
async fn visit(address: &str) -> std::io::Result<()> {
    let placed = request(address, "POST", "/orders", r#"{"number":7,"item":"chair"}"#).await?;
    println!("placed: task {placed}");
    println!("again:  task {}", request(address, "POST", "/orders", r#"{"number":7,"item":"chair"}"#).await?);
    loop {
        let why = request(address, "GET", &format!("/tasks/{placed}"), "").await?;
        println!("asked:  {why}");
        if !why.contains("waits for a worker") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// One HTTP request; the answer's body.
async fn request(address: &str, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n"
    );
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned())
}
