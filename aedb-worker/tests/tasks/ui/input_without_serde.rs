struct Order;

#[aedb_worker::task]
async fn ship(order: Order) {
    drop(order);
}

fn main() {}
