#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    number: u64,
}

#[aedb_worker::task(unique(window = "1h"))]
async fn nothing(_: Order) {}

#[aedb_worker::task(unique(nummer))]
async fn misspelt(_: Order) {}

fn main() {}
