//! What only a server can show: the caller's own transactions, other sessions in the way, connections that are cut, and servers
//! that go away and come back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod away;
mod contention;
mod cuts;
mod look;
mod migrations;
mod own;
mod proxy;
mod transactions;
mod workers;

use std::time::Duration;

use aedb_queue::{ClaimRequest, ClaimedTask, Db, DbBuilder, LeaseLength, Queue};
use aedb_tests::server::{Schema, address, runtime};
use sqlx::{Connection, PgConnection};

/// Runs a test on a schema of its own, by the server's clock.
fn on_a_schema<T>(test: impl AsyncFnOnce(&Schema) -> T) -> T {
    on_a_schema_of(Db::builder(), test)
}

fn on_a_schema_of<T>(builder: DbBuilder, test: impl AsyncFnOnce(&Schema) -> T) -> T {
    let schema = Schema::open(builder);
    let answer = runtime().block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test(&schema)).await.expect("every wait has an end")
    });
    // Its claims' hand-overs have ended with their calls; so has everything that could hold the schema.
    drop(schema);
    answer
}

/// A connection of the application's own.
async fn connection() -> PgConnection {
    PgConnection::connect(&address()).await.unwrap()
}

fn request(max: usize) -> ClaimRequest {
    ClaimRequest::new("w", LeaseLength::secs(30)).max(max)
}

async fn claim(queue: &Queue, max: usize) -> Vec<ClaimedTask> {
    queue.claim(request(max)).await.unwrap()
}

/// The same schema, by connections that wait for a lock half a second.
async fn impatient(schema: &Schema) -> Db {
    let url = address();
    let url = format!("{url}{}options=-clock_timeout%3D500", if url.contains('?') { '&' } else { '?' });
    Db::builder().schema(&schema.name).connections(2).connect(&url).await.unwrap()
}
