//! A network between the store and its server: it reads the protocol, and cuts a connection where a test wants it cut.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Where a connection is cut: both sides are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Instead of passing on a BEGIN.
    AtBegin,
    /// Instead of passing on a COMMIT.
    BeforeCommit,
    /// When the server has answered a COMMIT, instead of passing on the answer.
    AfterCommit,
    /// Instead of passing on a statement with arguments.
    BeforeStatement,
    /// When the server has answered such a statement.
    AfterStatement,
}

impl Cut {
    pub(super) const ALL: [Self; 5] =
        [Self::AtBegin, Self::BeforeCommit, Self::AfterCommit, Self::BeforeStatement, Self::AfterStatement];

    fn is_at(self, tag: u8, body: &[u8]) -> bool {
        match self {
            Self::AtBegin => tag == b'Q' && body.starts_with(b"BEGIN"),
            Self::BeforeCommit | Self::AfterCommit => tag == b'Q' && body.starts_with(b"COMMIT"),
            Self::BeforeStatement | Self::AfterStatement => tag == b'B',
        }
    }

    fn lets_it_through(self) -> bool {
        matches!(self, Self::AfterCommit | Self::AfterStatement)
    }
}

#[derive(Debug, Default)]
struct Network {
    upstream: AtomicU16,
    cut: Mutex<Option<Cut>>,
    is_silent: AtomicBool,
}

/// A network of a test's own.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) port: u16,
    network: Arc<Network>,
}

impl Proxy {
    /// A network to the server on a port.
    pub(super) async fn to(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let network = Arc::new(Network { upstream: AtomicU16::new(upstream), ..Network::default() });
        let (port, shared) = (listener.local_addr().unwrap().port(), Arc::downgrade(&network));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Some(network) = shared.upgrade() else { return };
                tokio::spawn(pass(client, network));
            }
        });
        Self { port, network }
    }

    /// Cuts the next connection that comes to the place.
    pub(super) fn cut(&self, at: Cut) {
        *self.network.cut.lock().unwrap() = Some(at);
    }

    /// Whether a cut that was asked for is still to come; it is not any more.
    pub(super) fn take_back(&self) -> bool {
        self.network.cut.lock().unwrap().take().is_some()
    }

    /// Passes nothing on any more and closes nothing, or goes on.
    pub(super) fn be_silent(&self, silent: bool) {
        self.network.is_silent.store(silent, Ordering::SeqCst);
    }

    /// Leads new connections to another server.
    pub(super) fn lead_to(&self, upstream: u16) {
        self.network.upstream.store(upstream, Ordering::SeqCst);
    }
}

async fn pass(client: TcpStream, network: Arc<Network>) {
    let upstream = SocketAddr::from(([127, 0, 0, 1], network.upstream.load(Ordering::SeqCst)));
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
    let swallows = AtomicBool::new(false);
    tokio::select! {
        _ = up(client_in, server_out, &network, &swallows) => {}
        _ = down(server_in, client_out, &network, &swallows) => {}
    }
}

async fn up(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    network: &Network,
    swallows: &AtomicBool,
) -> std::io::Result<()> {
    // What opens a connection has no tag: perhaps a question for encryption, then the startup.
    loop {
        let length = from.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        from.read_exact(&mut body).await?;
        to.write_u32(length).await?;
        to.write_all(&body).await?;
        if body.starts_with(&196_608_u32.to_be_bytes()) {
            break;
        }
    }
    loop {
        let (tag, length) = (from.read_u8().await?, from.read_u32().await?);
        let mut body = vec![0; length as usize - 4];
        from.read_exact(&mut body).await?;
        wait_while_silent(network).await;
        let cut = network.cut.lock().unwrap().take_if(|cut| cut.is_at(tag, &body));
        match cut {
            Some(cut) if cut.lets_it_through() => swallows.store(true, Ordering::SeqCst),
            Some(_) => return Ok(()),
            None => {}
        }
        let message = [&[tag][..], &length.to_be_bytes(), &body].concat();
        to.write_all(&message).await?;
    }
}

async fn down(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    network: &Network,
    swallows: &AtomicBool,
) -> std::io::Result<()> {
    let (mut buffer, mut swallowed) = (vec![0; 64 * 1024], Vec::new());
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        wait_while_silent(network).await;
        if !swallows.load(Ordering::SeqCst) {
            to.write_all(&buffer[..read]).await?;
            continue;
        }
        swallowed.extend_from_slice(&buffer[..read]);
        if is_ready_for_query(&swallowed) {
            return Ok(());
        }
    }
}

/// Whether the server has answered all of it.
fn is_ready_for_query(mut messages: &[u8]) -> bool {
    while messages.len() >= 5 {
        let length = u32::from_be_bytes(messages[1..5].try_into().unwrap()) as usize;
        if messages[0] == b'Z' {
            return true;
        }
        messages = messages.get(1 + length..).unwrap_or_default();
    }
    false
}

async fn wait_while_silent(network: &Network) {
    while network.is_silent.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
