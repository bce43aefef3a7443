//! A line to Redis that can fall silent or break, while new ones work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// How often it was silenced: lines older than that carry nothing any more.
    silenced: watch::Sender<u32>,
    hang_up: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) async fn start(redis: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (silenced, seen) = watch::channel(0);
        let hang_up = Arc::new(AtomicBool::new(false));
        let hung = hang_up.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", redis)).await.unwrap();
                tokio::spawn(carry(client, server, seen.clone(), hung.clone()));
            }
        });
        Self { port, silenced, hang_up }
    }

    /// From now on, lines that are open carry nothing in either direction, and stay open.
    pub(crate) fn silence(&self) {
        self.silenced.send_modify(|times| *times += 1);
    }

    /// Breaks the line that is spoken on next, before Redis hears it.
    pub(crate) fn hang_up_on_the_next_words(&self) {
        self.hang_up.store(true, Ordering::SeqCst);
    }
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    mut silenced: watch::Receiver<u32>,
    hang_up: Arc<AtomicBool>,
) {
    silenced.mark_unchanged();
    let (mut asked, mut answered) = ([0; 16 * 1024], [0; 16 * 1024]);
    loop {
        let carried = tokio::select! {
            biased;
            // Kept open, never read again, until the test ends.
            _ = silenced.changed() => return std::future::pending().await,
            read = client.read(&mut asked) => {
                if hang_up.swap(false, Ordering::SeqCst) {
                    return;
                }
                match read {
                    Ok(length) if 0 < length => server.write_all(&asked[..length]).await,
                    Ok(_) | Err(_) => return,
                }
            }
            read = server.read(&mut answered) => match read {
                Ok(length) if 0 < length => client.write_all(&answered[..length]).await,
                Ok(_) | Err(_) => return,
            },
        };
        if carried.is_err() {
            return;
        }
    }
}
