#[aedb_worker::task(lease = "500ms")]
async fn send(_: u64) {}

fn main() {}
