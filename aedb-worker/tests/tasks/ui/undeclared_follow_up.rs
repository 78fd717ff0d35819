use aedb_worker::{Outcome, task};

#[task(follow_ups(receipt))]
async fn charge(order: u64) -> Outcome<()> {
    Outcome::done(()).then(charge::survey(order))
}

#[task]
async fn receipt(_: u64) {}

#[task]
async fn survey(_: u64) {}

fn main() {}
