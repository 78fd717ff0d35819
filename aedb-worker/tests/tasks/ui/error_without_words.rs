struct Silent;

#[aedb_worker::task]
async fn charge(_: u64) -> Result<(), Silent> {
    Err(Silent)
}

fn main() {}
