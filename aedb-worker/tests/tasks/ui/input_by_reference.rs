#[aedb_worker::task]
async fn greet(name: &str) {
    println!("{name}");
}

fn main() {}
