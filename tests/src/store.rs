//! The store that `AEDB_STORE` names. Tests of other crates include this file by its path.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::path::Path;

use aedb_queue::{Db, DbBuilder};

/// Whether it is a server; then calls take a moment.
pub(crate) fn is_served() -> bool {
    cfg!(feature = "postgres") && std::env::var("AEDB_STORE").is_ok_and(|store| store == "postgres")
}

/// An empty database: in memory, in an AEDB instance, or a schema of its own on the server that `AEDB_POSTGRES` names.
pub(crate) fn fresh(builder: DbBuilder) -> Db {
    #[cfg(feature = "postgres")]
    if is_served() {
        return served::fresh(builder);
    }
    #[cfg(feature = "aedb")]
    if std::env::var("AEDB_STORE").is_ok_and(|store| store == "aedb") {
        return inside(builder);
    }
    builder.memory().unwrap()
}

/// A database that processes share: a file, or the schema that goes by the file's folder.
pub(crate) fn shared(file: &Path) -> Db {
    #[cfg(feature = "postgres")]
    if is_served() {
        return served::shared(file);
    }
    Db::open(file).unwrap()
}

#[cfg(feature = "postgres")]
mod served {
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::path::Path;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use aedb_queue::{Db, DbBuilder};
    use tokio::runtime::{Builder, Runtime};

    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);

    pub(super) fn fresh(builder: DbBuilder) -> Db {
        connect(builder, format!("test_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed)))
    }

    pub(super) fn shared(file: &Path) -> Db {
        let mut hasher = DefaultHasher::new();
        file.hash(&mut hasher);
        connect(Db::builder(), format!("test_{:x}", hasher.finish()))
    }

    /// From a thread of its own, since a test may have a runtime that must not be blocked. The schema stays until its server is thrown away.
    fn connect(builder: DbBuilder, schema: String) -> Db {
        let url = std::env::var("AEDB_POSTGRES")
            .unwrap_or_else(|_| panic!("AEDB_POSTGRES names no server; tests/run starts one"));
        let connects = move || RUNTIME.block_on(builder.schema(schema).connections(4).connect(&url)).unwrap();
        std::thread::spawn(connects).join().unwrap()
    }
}

#[cfg(feature = "aedb")]
fn inside(builder: DbBuilder) -> Db {
    use std::sync::{Arc, LazyLock};

    use aedb::AedbInstance;
    use aedb::config::AedbConfig;
    use aedb_queue::AedbLimits;
    use tokio::runtime::{Builder, Runtime};

    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
    // The folder stays for as long as the process: the instance may close after the test.
    let folder = tempfile::tempdir().unwrap().keep();
    let _within = RUNTIME.enter();
    // Room for the largest batches; and a closing instance waits for the interval.
    let limits = AedbLimits { mutations: 1 << 16, assertions: 1 << 16, ..AedbLimits::default() };
    let config = AedbConfig {
        max_mutations_per_envelope: limits.mutations,
        max_read_assertions_per_envelope: limits.assertions,
        version_gc_interval_ms: 10,
        ..AedbConfig::default()
    };
    builder.aedb_limits(limits).aedb(Arc::new(AedbInstance::open_anonymous(config, &folder).unwrap())).unwrap()
}
