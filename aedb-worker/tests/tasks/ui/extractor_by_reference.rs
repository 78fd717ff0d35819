use aedb_worker::TaskContext;

#[aedb_worker::task]
async fn send(_: u64, cx: &TaskContext) {
    drop(cx.id());
}

fn main() {}
