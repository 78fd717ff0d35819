#[aedb_worker::task(name = "mail.send" queue = "mail")]
async fn send(_: u64) {}

#[aedb_worker::task("mail.receive")]
async fn receive(_: u64) {}

fn main() {}
