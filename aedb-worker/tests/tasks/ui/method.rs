struct Shop;

impl Shop {
    #[aedb_worker::task]
    async fn ship(&self, _: u64) {}
}

fn main() {}
