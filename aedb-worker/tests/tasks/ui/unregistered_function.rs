use aedb_worker::tasks;

async fn send(_: u64) {}

fn main() {
    let _ = tasks![send];
}
