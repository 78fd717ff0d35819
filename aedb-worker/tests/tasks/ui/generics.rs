#[aedb_worker::task]
async fn send<T>(input: T) {
    drop(input);
}

fn main() {}
