//! Settings, logs, and Ctrl-C; everything else is in the library beside it.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use aedb_queue::Db;
use aedb_worker::async_trait;
use aedb_worker::outbox::Event;
use clap::Parser;
use starter::service;
use starter::tasks::Bank;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// Orders over HTTP, with a durable queue behind them.
#[derive(Parser)]
struct Settings {
    /// The database's file; it is created if it is not there.
    #[arg(long, env = "DATABASE", default_value = "starter.db")]
    database: PathBuf,
    /// Where to listen.
    #[arg(long, env = "ADDRESS", default_value = "127.0.0.1:3000")]
    address: String,
}

/// Put your bank's client here.
struct PretendBank;

#[async_trait]
impl Bank for PretendBank {
    async fn charge(&self, cents: u64, key: &str) -> Result<String, std::io::Error> {
        Ok(format!("{cents} cents, {key}"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // RUST_LOG=aedb_worker=debug tells each attempt; by default only what goes wrong is told.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let settings = Settings::parse();
    let db = Db::open(&settings.database)?;
    let listener = TcpListener::bind(&settings.address).await?;
    println!(
        "listening on http://{}, with {}; Ctrl-C stops it in order",
        settings.address,
        settings.database.display()
    );
    // Put your message broker's client here.
    let publish = |event: Event| async move {
        println!("event {}: {} is {}", event.id, event.key, event.payload);
        Ok(())
    };
    let stop = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    service::serve(db, listener, Arc::new(PretendBank), publish, stop).await
}
