//! Web, worker and dispatcher together: started at once, stopped in order.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use aedb_queue::Db;
use aedb_worker::Worker;
use aedb_worker::outbox::{Dispatcher, Publisher};
use tokio::net::TcpListener;

use crate::tasks::{self, AnyBank, Bank};
use crate::web;

/// Serves until a future ends: then no more requests are taken, then running tasks finish, then the last events go out.
///
/// # Errors
///
/// If a part cannot be built, or cannot be kept alive.
pub async fn serve(
    db: Db,
    listener: TcpListener,
    bank: Arc<dyn Bank>,
    publisher: impl Publisher,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let worker = Worker::builder(&db).tasks(tasks::all()).state(AnyBank(bank)).concurrency(32).build()?;
    let dispatcher = Dispatcher::builder(&db).topic("orders").publisher(publisher).build()?;
    let (worker_handle, dispatcher_handle) = (worker.handle(), dispatcher.handle());
    let (working, dispatching) = (tokio::spawn(worker.run()), tokio::spawn(dispatcher.run()));
    let served = axum::serve(listener, web::routes(db, worker_handle.clone())).with_graceful_shutdown(stop).await;
    worker_handle.shutdown();
    working.await??;
    dispatcher_handle.shutdown();
    dispatching.await??;
    Ok(served?)
}
