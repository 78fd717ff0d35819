#[aedb_worker::task]
async fn send(input: impl Into<String>) {
    drop(input.into());
}

fn main() {}
