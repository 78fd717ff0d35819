use aedb_worker::{Outcome, task};

#[task(follow_ups(receipt))]
async fn charge(order: u64) -> Outcome<()> {
    Outcome::done(()).then(charge::receipt(order))
}

#[task]
async fn receipt(_: String) {}

fn main() {}
