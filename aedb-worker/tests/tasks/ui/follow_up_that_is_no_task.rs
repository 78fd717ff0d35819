#[aedb_worker::task(follow_ups(plain))]
async fn send(_: u64) {}

async fn plain(_: u64) {}

fn main() {}
