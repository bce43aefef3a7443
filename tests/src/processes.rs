//! A whole installation as an operator runs it: the real `portcullis` in processes of its own.
//!
//! What a test sees, it sees from outside: over HTTP, over AMQP, in the exit code, in the log, and
//! in the lines that the tools' own processes appended.
//!
//! Authority: the value that started a process; dropping it kills the process with -9.
//! Invariant: nothing here stops or signals a process that it did not start.
//! If we crash here: the kernel kills the processes (parent death signal), and they their tools.

mod agents;
mod api;
mod approver;
mod program;
mod setup;
mod wakes;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

pub use agents::{Agent, POOL};
pub use api::{Answer, Api};
pub use approver::{Approver, Listening, PythonApprover, Signing};
pub(crate) use program::beside;
pub use program::{Running, program};
pub use setup::{People, Setup, signed_hook, token_of};
pub use wakes::{JOB_QUEUES, take_wakes, throw_wakes};

use crate::home::{Effects, Kind};
use crate::servers::{
    PortLease, RabbitServer, RedisOptions, RedisServer, TempFolder, Vhost, shared_rabbit,
};

/// How long a test waits for anything at most.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// How many schedulers, and how many workers, one installation has at most.
const PLACES: usize = 3;

/// Configuration, folder, ports and servers of one installation; its processes come and go.
pub struct Installation {
    folder: TempFolder,
    desks: Vec<PortLease>,
    gauges: Vec<PortLease>,
    /// The lines that tools appended.
    pub effects: Effects,
    /// `None` in the embedded home.
    pub servers: Option<Servers>,
}

/// What a distributed installation stands on.
pub struct Servers {
    pub redis: RedisServer,
    pub broker: Broker,
}

/// A part of a broker for those who leave it in peace, or a whole one for those who kill it.
pub enum Broker {
    Shared(Vhost),
    Own(Box<RabbitServer>),
}

impl Broker {
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Shared(vhost) => vhost.url(),
            Self::Own(server) => server.url(),
        }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Shared(vhost) => vhost.port(),
            Self::Own(server) => server.port(),
        }
    }

    /// The broker itself, to be broken.
    ///
    /// # Panics
    /// When it is shared: other tests use it.
    pub fn own(&mut self) -> &mut RabbitServer {
        match self {
            Self::Shared(_) => panic!("a shared broker is left in peace"),
            Self::Own(server) => server,
        }
    }
}

/// The processes that make an installation work: one `up`, or a scheduler and a worker.
pub struct Crew {
    pub desk: Running,
    pub worker: Option<Running>,
}

impl Installation {
    /// # Panics
    /// When it cannot be set up.
    #[must_use]
    pub fn of(kind: Kind, setup: &Setup) -> Self {
        match kind {
            Kind::Embedded => Self::embedded(setup),
            Kind::Distributed => Self::distributed(setup),
        }
    }

    /// # Panics
    /// When it cannot be set up.
    #[must_use]
    pub fn embedded(setup: &Setup) -> Self {
        Self::with(setup, None)
    }

    /// On a private Redis and an own virtual host of the run's RabbitMQ.
    ///
    /// # Panics
    /// When it cannot be set up.
    #[must_use]
    pub fn distributed(setup: &Setup) -> Self {
        Self::with(setup, Some(Broker::Shared(shared_rabbit().unwrap())))
    }

    /// On a private Redis and a private RabbitMQ, both to be broken.
    ///
    /// # Panics
    /// When it cannot be set up.
    #[must_use]
    pub fn with_own_broker(setup: &Setup) -> Self {
        Self::with(setup, Some(Broker::Own(Box::new(RabbitServer::start().unwrap()))))
    }

    fn with(setup: &Setup, broker: Option<Broker>) -> Self {
        let folder = TempFolder::new("installation").unwrap();
        let leases = || (0..PLACES).map(|_| PortLease::take().unwrap()).collect::<Vec<_>>();
        let (desks, gauges) = (leases(), leases());
        let servers = broker.map(|broker| {
            let redis = RedisServer::start(RedisOptions::default()).unwrap();
            Servers { redis, broker }
        });
        let ports: Vec<u16> = desks.iter().chain(&gauges).map(PortLease::port).collect();
        let urls = servers.as_ref().map(|servers| (servers.redis.url(), servers.broker.url()));
        setup.write(folder.path(), &ports, urls.as_ref());
        let effects = Effects::in_folder(folder.path());
        Self { folder, desks, gauges, effects, servers }
    }

    /// Where its configuration lies; `data` and `work` are in there.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The port on which a scheduler in this place serves.
    #[must_use]
    pub fn desk_port(&self, place: usize) -> u16 {
        self.desks[place].port()
    }

    /// Redis and RabbitMQ.
    ///
    /// # Panics
    /// In the embedded home.
    pub fn servers(&mut self) -> &mut Servers {
        self.servers.as_mut().expect("a distributed installation")
    }

    /// The broker's address.
    ///
    /// # Panics
    /// In the embedded home.
    #[must_use]
    pub fn bus_url(&self) -> String {
        self.servers.as_ref().expect("a distributed installation").broker.url()
    }

    /// Starts everything that is needed, and waits until it is ready.
    pub async fn start(&self) -> Crew {
        match self.servers {
            None => Crew { desk: self.up().await, worker: None },
            Some(_) => Crew { desk: self.scheduler(0).await, worker: Some(self.worker(0).await) },
        }
    }

    /// Starts `portcullis up`.
    pub async fn up(&self) -> Running {
        let running = self.launch("up", self.desk_port(0));
        running.await_answer("/readyz").await;
        running
    }

    /// The same, with further variables of its environment.
    pub async fn up_with(&self, more: &[(&str, String)]) -> Running {
        let running = Running::start("up", self.folder(), self.desk_port(0), more);
        running.await_answer("/readyz").await;
        running
    }

    /// Starts `portcullis scheduler` in one of its places.
    pub async fn scheduler(&self, place: usize) -> Running {
        let running = self.launch("scheduler", self.desk_port(place));
        running.await_answer("/readyz").await;
        running
    }

    /// Starts `portcullis worker` in one of its places.
    pub async fn worker(&self, place: usize) -> Running {
        let running = self.launch("worker", self.gauges[place].port());
        running.await_answer("/healthz").await;
        running
    }

    /// The same, with further variables of its environment.
    pub async fn worker_with(&self, place: usize, more: &[(&str, String)]) -> Running {
        let running = Running::start("worker", self.folder(), self.gauges[place].port(), more);
        running.await_answer("/healthz").await;
        running
    }

    /// Starts a process without waiting for it.
    ///
    /// # Panics
    /// When the program is missing.
    #[must_use]
    pub fn launch(&self, role: &'static str, port: u16) -> Running {
        Running::start(role, self.folder(), port, &[])
    }

    /// Starts a process in one of its places without waiting for it.
    ///
    /// # Panics
    /// When the program is missing.
    #[must_use]
    pub fn launch_in(&self, role: &'static str, place: usize) -> Running {
        let lease = if role == "worker" { &self.gauges[place] } else { &self.desks[place] };
        self.launch(role, lease.port())
    }

    /// What `portcullis doctor --json` says here, with its exit code.
    ///
    /// # Panics
    /// When it prints no JSON.
    #[must_use]
    pub fn doctor(&self) -> (i32, Value) {
        let (code, text) = program::run(self.folder(), &["doctor", "--json"]);
        (code, serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}")))
    }

    /// The API of a scheduler in this place, whether it runs or not.
    #[must_use]
    pub fn api(&self, place: usize) -> Api {
        Api::at(self.desk_port(place))
    }

    /// Waits until a line was appended so often.
    ///
    /// # Panics
    /// When it was not within [`PATIENCE`].
    pub async fn until_effects(&self, line: &str, count: usize) {
        let seen = async || self.effects.count(line) == count;
        until(&format!("`{line}` is there {count} times"), seen).await;
    }

    /// Makes a file that a tool waits for in its work folder.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn signal(&self, name: &str) {
        std::fs::write(self.effects.work().join(name), "").unwrap();
    }
}

impl Crew {
    /// The worker, or the one process that is everything.
    #[must_use]
    pub fn working(&self) -> &Running {
        self.worker.as_ref().unwrap_or(&self.desk)
    }

    /// Kills all of it with -9.
    pub fn kill9(&mut self) {
        self.desk.kill9();
        self.worker.iter_mut().for_each(Running::kill9);
    }
}

impl std::ops::Deref for Crew {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.desk
    }
}

/// Asks again and again until the answer is yes.
///
/// # Panics
/// When it is not within [`PATIENCE`].
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is_so().await {
            // sleep: a poll of what other processes do, bounded by PATIENCE
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// Outcome and code of an ended run.
///
/// # Panics
/// When it has not ended.
#[must_use]
pub fn outcome(run: &Value) -> (&str, &str) {
    match (run["outcome"].as_str(), run["reason"]["code"].as_str()) {
        (Some(outcome), Some(code)) => (outcome, code),
        (Some(_) | None, _) => panic!("it has not ended: {run:#}"),
    }
}

/// The names of what happened to a run, in order.
///
/// # Panics
/// When that is no run.
#[must_use]
pub fn facts(run: &Value) -> Vec<&str> {
    let entries = run["history"].as_array().expect("a run has a history");
    entries.iter().filter_map(|entry| entry["what"].as_str()).collect()
}

/// Why a run's calls were refused, in order.
///
/// # Panics
/// When that is no run.
#[must_use]
pub fn denials(run: &Value) -> Vec<&str> {
    let calls = run["calls"].as_array().expect("a run has calls");
    calls.iter().filter_map(|call| call["denial"]["code"].as_str()).collect()
}
