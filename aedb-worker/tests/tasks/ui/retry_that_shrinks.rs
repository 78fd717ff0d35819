#[aedb_worker::task(retry(max = 5, base = "10m", cap = "2s"))]
async fn send(_: u64) {}

fn main() {}
