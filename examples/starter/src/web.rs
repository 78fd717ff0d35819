//! The routes: each change and its task in one commit.

use aedb_queue::{Db, Effects, ErrorKind, TaskId};
use aedb_worker::WorkerHandle;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};

use crate::tasks::{Order, charge};

type Answer = Result<(StatusCode, String), (StatusCode, String)>;

/// `POST /orders`, `GET /orders/{number}`, `GET /tasks/{id}`, `GET /ready`.
pub fn routes(db: Db, worker: WorkerHandle) -> Router {
    let orders = Router::new().route("/orders", post(place)).route("/orders/{number}", get(look));
    let orders = orders.route("/tasks/{id}", get(explain)).with_state(db);
    orders.merge(Router::new().route("/ready", get(ready)).with_state(worker))
}

/// The order and its task exist both or neither; the same order again is told from the first.
async fn place(State(db): State<Db>, Json(order): Json<Order>) -> Answer {
    let key = format!("order:{}", order.number);
    let placed = Effects::new().assert_absent(key.as_str()).put(key, "placed");
    match charge::enqueue(&db, order).effects(placed).await {
        Ok(task) => Ok((StatusCode::ACCEPTED, format!("task {}\n", task.id))),
        Err(error) if error.kind() == ErrorKind::Conflict => Err((StatusCode::CONFLICT, "it is here already\n".into())),
        Err(error) => Err(failed(&error)),
    }
}

/// The order's state.
async fn look(State(db): State<Db>, Path(number): Path<u64>) -> Answer {
    let known = db.default_scope().kv().get(format!("order:{number}")).await.map_err(|error| failed(&error))?;
    let Some(state) = known else { return Err((StatusCode::NOT_FOUND, "there is no such order\n".into())) };
    Ok((StatusCode::OK, format!("{}\n", String::from_utf8_lossy(&state))))
}

/// Why a task is not further: the queue knows.
async fn explain(State(db): State<Db>, Path(id): Path<u64>) -> Answer {
    let why = async { db.queue(charge::QUEUE)?.explain(TaskId::from_u64(id)).await };
    why.await.map(|why| (StatusCode::OK, format!("{why}\n"))).map_err(|error| failed(&error))
}

async fn ready(State(worker): State<WorkerHandle>) -> StatusCode {
    if worker.health().ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn failed(error: &aedb_queue::Error) -> (StatusCode, String) {
    let status = match error.kind() {
        ErrorKind::Invalid | ErrorKind::TooLarge => StatusCode::BAD_REQUEST,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{error}\n"))
}
