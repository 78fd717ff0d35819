#[derive(serde::Serialize, serde::Deserialize)]
struct Order(u64);

#[derive(serde::Serialize)]
struct Receipt(u64);

#[aedb_worker::task]
pub async fn charge(order: Order) -> Receipt {
    Receipt(order.0)
}

fn main() {}
