//! A TCP line to a server that can be cut as a network is: nothing is refused, nothing arrives.
//!
//! Invariant: what was sent while it was cut arrives once it is whole again, as TCP sends it again;
//! new connections are taken and stay silent, as behind a switch that swallows packets.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Both,
    /// What the client says, and not what it is answered.
    Questions,
    Nothing,
}

/// A line that listens on a port of its own.
pub struct Line {
    port: u16,
    flow: Arc<watch::Sender<Flow>>,
    trap: Arc<watch::Sender<Option<&'static str>>>,
    carrier: JoinHandle<()>,
}

impl Line {
    /// A whole line to a local server.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let flow = Arc::new(watch::channel(Flow::Both).0);
        let trap = Arc::new(watch::channel(None).0);
        let ends = (Arc::clone(&flow), Arc::clone(&trap));
        let carrier = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(ask(from_client, to_server, ends.0.subscribe(), ends.clone()));
                tokio::spawn(answer(from_server, to_client, ends.0.subscribe()));
            }
        });
        Self { port, flow, trap, carrier }
    }

    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing gets through, in either direction.
    pub fn cut(&self) {
        self.flow.send_replace(Flow::Nothing);
    }

    /// From the first question on that contains these words, nobody is answered any more. The
    /// question itself still arrives.
    pub fn keep_answers_from(&self, words: &'static str) {
        self.trap.send_replace(Some(words));
    }

    /// Waits until [`keep_answers_from`](Self::keep_answers_from) has caught something.
    ///
    /// # Panics
    /// Never: the line holds the other end.
    pub async fn until_caught(&self) {
        let mut flow = self.flow.subscribe();
        flow.wait_for(|flow| *flow == Flow::Questions).await.expect("we hold the sender");
    }

    /// Everything gets through again.
    pub fn mend(&self) {
        self.flow.send_replace(Flow::Both);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

type Ends = (Arc<watch::Sender<Flow>>, Arc<watch::Sender<Option<&'static str>>>);

async fn ask(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<Flow>,
    ends: Ends,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let words = *ends.1.borrow();
        if words.is_some_and(|words| {
            bytes[..length].windows(words.len()).any(|at| at == words.as_bytes())
        }) {
            ends.1.send_replace(None);
            ends.0.send_replace(Flow::Questions);
        }
        if flow.wait_for(|flow| *flow != Flow::Nothing).await.is_err()
            || to.write_all(&bytes[..length]).await.is_err()
        {
            return;
        }
    }
}

async fn answer(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<Flow>,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if flow.wait_for(|flow| *flow == Flow::Both).await.is_err()
            || to.write_all(&bytes[..length]).await.is_err()
        {
            return;
        }
    }
}
