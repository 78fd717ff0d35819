struct Mailer;

#[aedb_worker::task]
async fn send(_: u64, mailer: Mailer) {
    drop(mailer);
}

fn main() {}
