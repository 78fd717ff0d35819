//! An AEDB instance in a folder of its own, for each test.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use aedb::AedbInstance;
use aedb::config::AedbConfig;
use aedb_queue::{AedbLimits, Db, DbBuilder};
use tempfile::TempDir;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

/// The runtime that instances of the tests live in.
pub fn runtime() -> &'static Runtime {
    &RUNTIME
}

/// Settings with room for the largest calls of the contract.
pub fn config() -> AedbConfig {
    let limits = limits();
    AedbConfig {
        max_mutations_per_envelope: limits.mutations,
        max_read_assertions_per_envelope: limits.assertions,
        max_transaction_bytes: limits.transaction_bytes,
        max_commit_queue_bytes: 4 * limits.transaction_bytes,
        max_kv_key_bytes: limits.key_bytes,
        max_kv_value_bytes: limits.value_bytes,
        // A closing instance waits for so long.
        version_gc_interval_ms: 10,
        ..AedbConfig::default()
    }
}

/// What these settings are.
pub fn limits() -> AedbLimits {
    AedbLimits {
        mutations: 1 << 18,
        assertions: 1 << 18,
        transaction_bytes: 64 << 20,
        key_bytes: 2048,
        value_bytes: 2 << 20,
        ..AedbLimits::default()
    }
}

/// Opens an instance in a folder.
pub fn open(folder: &Path, config: AedbConfig) -> Arc<AedbInstance> {
    let _within = RUNTIME.enter();
    Arc::new(AedbInstance::open_anonymous(config, folder).unwrap())
}

/// Attaches to an instance.
pub fn attach(builder: DbBuilder, instance: Arc<AedbInstance>) -> Db {
    let _within = RUNTIME.enter();
    builder.aedb_limits(limits()).aedb(instance).unwrap()
}

/// A database in a new instance, and the folder that it lives in.
pub fn fresh(builder: DbBuilder) -> (Db, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (attach(builder, open(folder.path(), config())), folder)
}
