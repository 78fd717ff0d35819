struct Receipt;

#[aedb_worker::task]
async fn charge(_: u64) -> Result<Receipt, std::io::Error> {
    Ok(Receipt)
}

fn main() {}
