#[aedb_worker::task(version = 0, upgrade = older)]
async fn send(_: u64) {}

#[aedb_worker::task(upgrade = older)]
async fn receive(_: u64) {}

fn older(_: u32, payload: aedb_queue::Json) -> aedb_queue::Result<u64> {
    payload.to()
}

fn main() {}
