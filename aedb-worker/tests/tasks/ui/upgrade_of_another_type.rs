use aedb_queue::Json;

#[aedb_worker::task(version = 2, upgrade = older)]
async fn send(_: u64) {}

fn older(_: u32, payload: Json) -> aedb_queue::Result<u32> {
    payload.to()
}

fn main() {}
