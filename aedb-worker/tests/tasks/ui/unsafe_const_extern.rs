#[aedb_worker::task]
async unsafe fn one(_: u64) {}

#[aedb_worker::task]
const fn two(_: u64) {}

#[aedb_worker::task]
extern "C" fn three(_: u64) {}

fn main() {}
