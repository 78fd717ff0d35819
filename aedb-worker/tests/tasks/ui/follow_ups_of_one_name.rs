use aedb_worker::task;

mod mail {
    #[aedb_worker::task(name = "mail.send")]
    pub async fn send(_: u64) {}
}

mod text {
    #[aedb_worker::task(name = "text.send")]
    pub async fn send(_: u64) {}
}

#[task(follow_ups(mail::send, text::send))]
async fn notify(_: u64) {}

fn main() {}
