//! How is a connection ended for certain?
//!
//! A blocked connection writes no frame, so not even its goodbye, and a frozen broker never answers
//! a greeting; either would keep the library's thread and its socket for as long as the broker
//! likes. So a second handle to the socket is kept here, and shutting that down ends both.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};

use lapin::tcp::{AMQPUriTcpExt as _, TLSConfig};
use lapin::uri::AMQPUri;
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, runtime};

use super::LinkSettings;
use crate::rabbitmq::channel::AmqpError;

/// The second handle. TLS connections have none: theirs is inside the TLS stream.
#[derive(Clone, Default)]
pub(super) struct Socket(Arc<Mutex<Option<TcpStream>>>);

impl Socket {
    /// Connects without the library's own recovery.
    pub(super) async fn connect(&self, settings: &LinkSettings) -> Result<Connection, AmqpError> {
        let mut uri = settings.address.uri.clone();
        uri.query.heartbeat = Some(settings.heartbeat_s);
        let properties =
            ConnectionProperties::default().with_connection_name(settings.name.clone().into());
        let place = self.clone();
        let runtime = runtime::default_runtime()?;
        // Ours, and not the one it is called with, whose type the compiler cannot see here.
        let ours = runtime.clone();
        let connect = async move |uri: AMQPUri, _| {
            let opening = uri.connect_with_config_async(TLSConfig::default(), &ours);
            let stream = opening.await?;
            if let AsyncTcpStream::Plain(plain) = &stream {
                let handle = plain.get_ref().as_fd().try_clone_to_owned()?;
                *place.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle.into());
            }
            Ok(stream)
        };
        Ok(Connection::connector(uri, runtime, connect, properties).await?)
    }

    /// Ends the connection now. Harmless when it has ended.
    pub(super) fn cut(&self) {
        if let Some(socket) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // An error: it was not connected any more.
            let _was_open = socket.shutdown(Shutdown::Both).is_ok();
        }
    }
}
