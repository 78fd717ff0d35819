//! Every rule of the contract on every store: `cargo test -p aedb-tests --test conformance c22` runs those of case 22 on all of them,
//! `... postgres::` all on one.

use std::process::ExitCode;
use std::sync::Arc;

use aedb_tests::conformance::run;
use aedb_tests::stores::{Embedded, Opens};

fn main() -> ExitCode {
    let embedded = [Embedded::Memory, Embedded::File, Embedded::Exclusive];
    let stores = embedded.into_iter().map(|store| Arc::new(store) as Arc<dyn Opens>);
    #[cfg(feature = "postgres")]
    let stores = stores.chain([Arc::new(aedb_tests::stores::Postgres) as Arc<dyn Opens>]);
    #[cfg(feature = "aedb")]
    let stores = stores.chain([Arc::new(aedb_tests::stores::Aedb) as Arc<dyn Opens>]);
    run(&stores.collect::<Vec<_>>())
}
