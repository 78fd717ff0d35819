//! Shows an outbox: orders change state, and a dispatcher in another process tells an HTTP receiver, in order for each order. It is killed
//! half way and started again, and nothing is lost. Run it with `cargo run --example outbox_dispatcher`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedb_queue::{Db, Effects};
use aedb_worker::TaskError;
use aedb_worker::outbox::{Dispatcher, Event, Outbox, event};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Router, routing::post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const FOLDER: &str = "outbox-data";
const STATES: [&str; 5] = ["placed", "paid", "packed", "sent", "arrived"];
const ORDERS: usize = 60;

/// What the receiver has seen: event ids, to tell what comes again, and the states of each order.
#[derive(Default)]
struct Seen {
    ids: BTreeSet<u64>,
    again: usize,
    states: BTreeMap<String, Vec<String>>,
}

/// The receiver: the id in a header tells what it has seen before.
async fn receive(State(seen): State<Arc<Mutex<Seen>>>, headers: HeaderMap, body: String) {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let Ok(mut seen) = seen.lock() else { return };
    if seen.ids.insert(header("event-id").parse().unwrap_or(0)) {
        seen.states.entry(header("order")).or_default().push(body);
    } else {
        seen.again += 1;
    }
}

/// Another process: it delivers what is in the outbox until it is killed.
async fn dispatch(address: String) -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open(Path::new(FOLDER).join("orders.db"))?;
    let deliver = move |event: Event| {
        let address = address.clone();
        async move { send(&address, &event).await.map_err(TaskError::from) }
    };
    // A lease of its own name: started again, it goes on at once.
    let dispatcher = Dispatcher::builder(&db).topic("orders").publisher(deliver).owner("dispatcher-1").concurrency(8);
    dispatcher.lease(Duration::from_secs(2)).build()?.run().await?;
    Ok(())
}

async fn send(address: &str, event: &Event) -> std::io::Result<()> {
    let (id, order) = (event.id, &event.key);
    let state: String = event.payload.to().map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect(address).await?;
    let head =
        format!("POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nevent-id: {id}\r\norder: {order}\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{state}", state.len()).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(std::io::Error::other(answer)) }
}

fn start(address: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).args(["dispatch", address]).spawn()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let [_, word, address] = std::env::args().collect::<Vec<_>>().as_slice()
        && word == "dispatch"
    {
        return dispatch(address.clone()).await;
    }
    let _ = std::fs::remove_dir_all(FOLDER);
    std::fs::create_dir_all(FOLDER)?;
    let (db, seen) = (Db::open(Path::new(FOLDER).join("orders.db"))?, Arc::new(Mutex::new(Seen::default())));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let receiver = Router::new().route("/", post(receive)).with_state(Arc::clone(&seen));
    tokio::spawn(async move { axum::serve(listener, receiver).await });

    let (mut dispatcher, kv) = (start(&address)?, db.default_scope().kv());
    let total = ORDERS * STATES.len();
    println!("{ORDERS} orders go through {} states; each change and its event are one commit.", STATES.len());
    for (step, state) in STATES.iter().enumerate() {
        for order in 0..ORDERS {
            let key = format!("order:{order}");
            let changed = Effects::new().put(key.as_str(), *state).and(event("orders", &key, state)?);
            kv.commit(changed).await?;
            if step == STATES.len() / 2 && order == ORDERS / 2 {
                dispatcher.kill()?;
                dispatcher.wait()?;
                println!(
                    "the dispatcher is killed after {} of {total} events",
                    seen.lock().map_or(0, |seen| seen.ids.len())
                );
                dispatcher = start(&address)?;
            }
        }
    }
    let outbox = Outbox::new(&db.default_scope(), "orders")?;
    while outbox.waiting(1).await? > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    dispatcher.kill()?;
    dispatcher.wait()?;
    let seen = seen.lock().map_err(|_| "the receiver panicked")?;
    let in_order = seen.states.values().filter(|states| states.iter().eq(STATES)).count();
    println!("{} of {total} events arrived, {} came again and were told by their id,", seen.ids.len(), seen.again);
    println!("and {in_order} of {ORDERS} orders heard of their states in the right order.");
    drop(seen);
    std::fs::remove_dir_all(FOLDER)?;
    Ok(())
}
