#[aedb_worker::task(timeout = "0s")]
async fn send(_: u64) {}

fn main() {}
