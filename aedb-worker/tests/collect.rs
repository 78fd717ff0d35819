//! `Tasks::all`: every task of the program, wherever it stands.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use aedb_worker::testing::Kit;
use aedb_worker::{Tasks, Worker, task};

#[task]
async fn here(_: u64) {}

mod deep {
    pub(super) mod down {
        #[aedb_worker::task(name = "deep.down", alias("deep"))]
        pub(crate) async fn there(_: u64) {}
    }
}

#[task]
#[cfg(any())]
async fn absent(_: u64) {}

#[tokio::test]
async fn all_has_every_task_of_the_program_once() {
    fn in_a_function() {
        #[task]
        async fn local(_: u64) {}
        let _ = local;
    }
    in_a_function();
    let kit = Kit::new().unwrap();
    here::enqueue(kit.db(), 1).await.unwrap();
    deep::down::there::enqueue(kit.db(), 1).await.unwrap();
    let worker = Worker::builder(kit.db()).tasks(Tasks::all()).build().unwrap();
    assert_eq!(worker.graph().to_string(), "deep.down\nhere\nlocal\n");
    assert_eq!(kit.drain(&worker).await.unwrap(), 2);
}
