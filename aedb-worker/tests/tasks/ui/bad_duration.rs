#[aedb_worker::task(timeout = "5 minutes")]
async fn send(_: u64) {}

fn main() {}
