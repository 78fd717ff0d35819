#[aedb_worker::task(name = "mail.send", retries(max = 3))]
async fn send(_: u64) {}

fn main() {}
