#[aedb_worker::task]
async fn tick() {}

#[aedb_worker::task]
async fn tock(_cx: aedb_worker::TaskContext) {}

fn main() {}
