use std::rc::Rc;

#[aedb_worker::task]
async fn count(input: u64) -> u64 {
    let shared = Rc::new(input);
    tokio::task::yield_now().await;
    *shared
}

fn main() {}
