// Every mistake is told, not only the first.
#[aedb_worker::task(timeout = "soon", lease = "2d", retry(max = 0), name = "")]
async fn send(_: u64) {}

fn main() {}
