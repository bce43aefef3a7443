//! Workers of our own, to be killed and cut off.
//!
//! Authority: the handles of what was started here. No other process is ever signalled.
//! Invariant: their way to Redis and RabbitMQ leads through this process, which can cut it in the
//! middle of whatever it carries.
//! If we crash here: the workers are killed with us (their handles are dropped), or, where that
//! fails, go on as workers of the deployment.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Url;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::{AbortHandle, JoinHandle};

use crate::config::{BusPlace, Home, StorePlace};
use crate::exit::{Exit, Failure};

/// The default ports, where a URL has none.
const REDIS_PORT: u16 = 6_379;
const AMQP_PORT: u16 = 5_672;

/// Everything that was started here.
pub(super) struct Crew {
    workers: Vec<Child>,
    config: PathBuf,
    store: Way,
    bus: Way,
}

/// A way to a server that leads through this process.
struct Way {
    url: String,
    open: Arc<Mutex<Vec<AbortHandle>>>,
    accepting: JoinHandle<()>,
}

impl Crew {
    /// Starts `count` workers on this configuration; `None` for no workers.
    pub(super) async fn start(
        count: u8,
        config: &Path,
        home: &Home,
    ) -> Result<Option<Self>, Failure> {
        let (StorePlace::Redis(redis), BusPlace::Rabbit { url, .. }) = (&home.store, &home.bus)
        else {
            return Ok(None);
        };
        if count == 0 {
            return Ok(None);
        }
        let store = Way::to(&redis.url, REDIS_PORT).await?;
        let bus = Way::to(url, AMQP_PORT).await?;
        let mut crew = Self { workers: Vec::new(), config: config.to_owned(), store, bus };
        for _ in 0..count {
            let worker = crew.launch()?;
            crew.workers.push(worker);
        }
        Ok(Some(crew))
    }

    fn launch(&self) -> Result<Child, Failure> {
        // The running binary, also when its file was replaced.
        Command::new("/proc/self/exe")
            .arg("--config")
            .arg(&self.config)
            .arg("worker")
            .env("PORTCULLIS_STORE_URL", &self.store.url)
            .env("PORTCULLIS_BUS_URL", &self.bus.url)
            // The deployment's own worker may have the configured port.
            .env("PORTCULLIS_WORKER_METRICS_LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|why| failed(format!("a worker cannot be started: {why}")))
    }

    /// Kills one of them with -9 and starts another in its place.
    pub(super) async fn kill_one(&mut self, which: usize) -> Result<(), Failure> {
        let place = which % self.workers.len();
        let mut next = self.launch()?;
        std::mem::swap(&mut next, &mut self.workers[place]);
        let mut old = next;
        if let Ok(Some(status)) = old.try_wait() {
            let message = format!("a worker of our own ended by itself: {status}");
            return Err(failed(message).mend("`portcullis worker` with this file says why"));
        }
        old.kill().await.map_err(|why| failed(format!("a worker cannot be killed: {why}")))
    }

    /// Cuts every connection of all of them: how many there were.
    pub(super) fn cut(&self) -> u64 {
        self.store.cut() + self.bus.cut()
    }

    /// Kills what is left.
    pub(super) async fn end(mut self) {
        for worker in &mut self.workers {
            // It may have ended by itself, which is what is wanted.
            worker.kill().await.ok();
        }
        self.store.accepting.abort();
        self.bus.accepting.abort();
    }
}

impl Way {
    async fn to(url: &str, port: u16) -> Result<Self, Failure> {
        let bad = || failed("the store's or the bus's URL has no host".to_owned());
        let mut url = Url::parse(url).map_err(|_| bad())?;
        let host = url.host_str().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
        let target = (host, url.port().unwrap_or(port));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|why| failed(format!("no free port: {why}")))?;
        let here = listener.local_addr().map_err(|why| failed(why.to_string()))?;
        url.set_host(Some("127.0.0.1")).map_err(|_| bad())?;
        url.set_port(Some(here.port())).map_err(|()| bad())?;
        let open = Arc::new(Mutex::new(Vec::new()));
        let accepting = tokio::spawn(lead(listener, target, Arc::clone(&open)));
        Ok(Self { url: url.to_string(), open, accepting })
    }

    fn cut(&self) -> u64 {
        let ways = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let live = ways.iter().filter(|way| !way.is_finished());
        let count = live.inspect(|way| way.abort()).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

async fn lead(listener: TcpListener, target: (String, u16), open: Arc<Mutex<Vec<AbortHandle>>>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let target = target.clone();
        let way = tokio::spawn(async move {
            if let Ok(mut far) = TcpStream::connect(target).await {
                // However it ends, both sides are closed.
                copy_bidirectional(&mut near, &mut far).await.ok();
            }
        });
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|way| !way.is_finished());
        open.push(way.abort_handle());
    }
}

fn failed(message: String) -> Failure {
    Failure::new(Exit::Failed, "crew", message)
}
