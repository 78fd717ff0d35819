//! The whole service over HTTP, on a file of its own.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedb_queue::Db;
use aedb_worker::async_trait;
use aedb_worker::outbox::Event;
use starter::service;
use starter::tasks::Bank;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

struct GoodBank;

#[async_trait]
impl Bank for GoodBank {
    async fn charge(&self, _: u64, key: &str) -> Result<String, std::io::Error> {
        Ok(key.to_owned())
    }
}

/// One request; the status line and the body.
async fn request(address: &str, method: &str, path: &str, body: &str) -> (String, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let (mut sent, mut answer) = (0, Vec::new());
    while sent < request.len() {
        stream.writable().await.unwrap();
        sent += stream.try_write(&request.as_bytes()[sent..]).unwrap_or(0);
    }
    loop {
        stream.readable().await.unwrap();
        let mut bytes = [0; 4096];
        match stream.try_read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => answer.extend(&bytes[..count]),
            Err(_) => {}
        }
    }
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_goes_through_and_the_service_stops_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("starter.db");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let publish = move |event: Event| {
        telling.lock().unwrap().push(event.payload.to::<String>().unwrap());
        std::future::ready(Ok(()))
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let stop_signal = async { drop(stopped.await) };
    let serving =
        tokio::spawn(service::serve(Db::open(&file).unwrap(), listener, Arc::new(GoodBank), publish, stop_signal));

    let (status, task) = request(&address, "POST", "/orders", r#"{"number":7,"cents":100}"#).await;
    assert!(status.contains("202"), "{status}");
    let id = task.trim().strip_prefix("task ").unwrap();
    let (_, why) = request(&address, "GET", &format!("/tasks/{id}"), "").await;
    assert!(why.contains("runs it") || why.starts_with("It "), "{why}");
    assert!(request(&address, "POST", "/orders", r#"{"number":7,"cents":100}"#).await.0.contains("409"));
    assert!(request(&address, "GET", "/orders/8", "").await.0.contains("404"));
    let mut state = String::new();
    for _ in 0..500 {
        state = request(&address, "GET", "/orders/7", "").await.1;
        if state == "shipped\n" && told.lock().unwrap().len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(state, "shipped\n");
    assert!(request(&address, "GET", "/ready", "").await.0.contains("200"));
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert_eq!(*told.lock().unwrap(), ["charged", "shipped"]);
}
