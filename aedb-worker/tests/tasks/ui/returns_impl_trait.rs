#[aedb_worker::task]
async fn list(_: u64) -> impl Iterator<Item = u64> {
    std::iter::empty()
}

fn main() {}
