//! Inside of AEDB: a claim that waits is served soon after AEDB's own calls have enqueued something.

#![cfg(feature = "aedb")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use aedb::EnqueueOptions;
use aedb_queue::Db;
use aedb_tests::instance::{self, config, runtime};
use aedb_tests::{claims, poll_once, secs};
use futures::executor::block_on;

#[test]
fn a_claim_that_waits_is_served_by_what_aedbs_own_calls_enqueue() {
    let folder = tempfile::tempdir().unwrap();
    let instance = instance::open(folder.path(), config());
    let queue = instance::attach(Db::builder(), Arc::clone(&instance)).queue("q").unwrap();
    let mut waits = Box::pin(queue.claim(claims("w").wait(secs(30))));
    assert!(poll_once(&mut waits).is_pending());
    block_on(queue.stats()).unwrap();
    let enqueued = instance.queue_enqueue("default", "default", "q", EnqueueOptions::default(), Vec::new());
    let project = runtime().block_on(async {
        instance.create_project("default").await?;
        instance.create_scope("default", "default").await?;
        enqueued.await
    });
    project.unwrap();
    assert_eq!(block_on(waits).unwrap().len(), 1);
}
