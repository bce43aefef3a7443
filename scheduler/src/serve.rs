//! How is the API served, and how does it stop?
//!
//! Invariant: boundedly many connections. A stop ends new work at once, streams by their token,
//! and everything else by a hard deadline.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Scheduler;
use crate::api::app_with;

/// How many connections may be open at once; more wait in the kernel.
const CONNECTIONS_MAX: usize = 4_096;
/// How long requests under way may take after a stop, in milliseconds.
const DRAIN_MS_MAX: u64 = 10_000;

impl Scheduler {
    /// Serves the API, and the `extra` routes, until `stop`; returns when the last request is
    /// answered, at most ten seconds later.
    ///
    /// # Errors
    /// When the listener is bound otherwise than the settings say (whether a token is needed
    /// follows from them), or can no longer accept.
    pub async fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        extra: Router,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let address = listener.local_addr()?;
        if address.ip().to_canonical().is_loopback() != self.settings.is_loopback() {
            let why = format!("bound to {address}, configured for {}", self.settings.listen);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        info!(%address, "listening");
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let app = app_with(self, extra).into_make_service_with_connect_info::<PeerAddress>();
        let (ending, stopped) = (self.ending.clone(), stop.clone());
        let serving =
            axum::serve(Bounded { listener, permits }, app).with_graceful_shutdown(async move {
                stopped.cancelled().await;
                ending.cancel();
            });
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_millis(DRAIN_MS_MAX)).await;
        };
        tokio::select! {
            served = serving => served,
            () = deadline => {
                warn!("requests were still under way at the end of the drain");
                Ok(())
            }
        }
    }
}

/// The connection's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, Bounded>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// A listener that accepts only while there is room.
struct Bounded {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("this semaphore is never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        if let Err(why) = stream.set_nodelay(true) {
            warn!(%why, "a connection keeps its delay");
        }
        (Connection { stream, _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection and its place among those that may be open.
struct Connection {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
