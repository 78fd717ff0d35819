#[aedb_worker::task]
struct Order {
    number: u64,
}

fn main() {}
