//! Who is killed, and how does it come back?
//!
//! Invariant: a life ends only with its process up again; dropping what it returns kills it.

use std::sync::Arc;

use tokio::task::{JoinHandle, block_in_place};

use super::await_queues;
use super::storm::Storm;
use crate::processes::{Api, Broker, Installation, Running, Servers, until};
use crate::servers::{Process, RabbitServer, RedisServer};

/// How many schedulers, and how many workers there are.
const EACH: usize = 3;

/// The pauses between two kills of one process, in milliseconds.
const PROCESS_MS: (u64, u64) = (200, 2_500);
const APPROVER_MS: (u64, u64) = (1_000, 5_000);
const REDIS_MS: (u64, u64) = (2_000, 8_000);
const RABBIT_MS: (u64, u64) = (8_000, 25_000);
/// How long somebody who was killed stays away at most, in milliseconds.
const AWAY_MS_MAX: u64 = 400;

/// An installation whose servers are in other hands.
pub(super) struct Site {
    pub(super) installation: Installation,
    pub(super) bus_url: Option<String>,
}

/// Something that stands until it is dropped, and then is killed.
type Standing = Box<dyn Send>;

type Life = JoinHandle<Standing>;

impl Site {
    pub(super) const fn new(installation: Installation, bus_url: Option<String>) -> Self {
        Self { installation, bus_url }
    }

    /// How many places serve the API.
    pub(super) const fn desks(&self) -> usize {
        if self.bus_url.is_some() { EACH } else { 1 }
    }

    pub(super) fn api(&self, n: u64) -> Api {
        let place = n % u64::try_from(self.desks()).expect("a few");
        self.installation.api(usize::try_from(place).expect("a few"))
    }

    pub(super) fn ledger(&self) -> std::path::PathBuf {
        self.installation.folder().join("said.log")
    }

    fn start_approver(&self) -> Process {
        let mut arguments = vec!["approver".to_owned()];
        match &self.bus_url {
            Some(url) => arguments.extend(["amqp".to_owned(), url.clone()]),
            None => {
                arguments.push("http".to_owned());
                arguments.push(self.installation.desk_port(0).to_string());
            }
        }
        let program = crate::processes::beside("soak");
        let started = Process::start_file("approver", &program, |command| {
            command.args(arguments).arg(self.ledger());
        });
        started.unwrap()
    }
}

/// Starts everybody, waits until they are there, and then lets each life begin.
pub(super) async fn all(
    site: &Arc<Site>,
    storm: &Arc<Storm>,
    servers: Option<Servers>,
) -> Vec<Life> {
    let roles: &[(&str, usize)] =
        if servers.is_some() { &[("scheduler", EACH), ("worker", EACH)] } else { &[("up", 1)] };
    let mut running = Vec::new();
    for (role, count) in roles {
        for place in 0..*count {
            let one = site.installation.launch_in(role, place);
            until("it serves", async || one.is_ok(health(role)).await).await;
            storm.serves(true);
            running.push((*role, place, one));
        }
    }
    let approver = site.start_approver();
    let mut lives = Vec::new();
    if let Some(Servers { redis, broker: Broker::Own(rabbit) }) = servers {
        block_in_place(|| await_queues(&rabbit));
        lives.push(tokio::spawn(redis_lives(Arc::clone(storm), redis)));
        lives.push(tokio::spawn(rabbit_lives(Arc::clone(storm), rabbit)));
    }
    lives.push(tokio::spawn(approver_lives(Arc::clone(site), Arc::clone(storm), approver)));
    for (n, (role, place, one)) in (10..).zip(running) {
        let (site, storm) = (Arc::clone(site), Arc::clone(storm));
        lives.push(tokio::spawn(process_lives(site, storm, n, (role, place), one)));
    }
    lives
}

async fn process_lives(
    site: Arc<Site>,
    storm: Arc<Storm>,
    n: u64,
    (role, place): (&'static str, usize),
    mut running: Running,
) -> Standing {
    let mut chance = storm.chance(n);
    let mut serves = true;
    while storm.pause(chance.between(PROCESS_MS.0, PROCESS_MS.1)).await && storm.may_kill(role) {
        if serves {
            storm.serves(false);
        }
        block_in_place(|| running.kill9());
        storm.pause(chance.below(AWAY_MS_MAX)).await;
        running = site.installation.launch_in(role, place);
        // Now and then it is killed while it starts.
        serves =
            !chance.one_in(5) && until_it_serves(&site, &storm, (role, place), &mut running).await;
        if serves {
            storm.serves(true);
        }
    }
    if !serves {
        let back = until_it_serves(&site, &storm, (role, place), &mut running).await;
        assert!(back, "{role} {place} does not come back:\n{}", running.log());
        storm.serves(true);
    }
    Box::new(running)
}

/// What tells that it serves. A worker has no senders to turn away.
fn health(role: &str) -> &'static str {
    if role == "worker" { "/healthz" } else { "/readyz" }
}

/// Whether it serves; not when it does not in time. One that ended by itself is started again.
async fn until_it_serves(
    site: &Site,
    storm: &Storm,
    (role, place): (&'static str, usize),
    running: &mut Running,
) -> bool {
    const TRIES_MAX: u32 = 2_000;
    for _ in 0..TRIES_MAX {
        if running.is_ok(health(role)).await {
            return true;
        }
        if !running.is_alive() {
            storm.gave_up();
            *running = site.installation.launch_in(role, place);
        }
        // sleep: a poll of another process, bounded by its count
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    false
}

async fn approver_lives(site: Arc<Site>, storm: Arc<Storm>, mut approver: Process) -> Standing {
    let mut chance = storm.chance(1);
    let mut left_ms = chance.between(APPROVER_MS.0, APPROVER_MS.1);
    const LOOK_MS: u64 = 100;
    while storm.pause(LOOK_MS).await {
        // It ends by itself when its connection breaks.
        if approver.has_ended() {
            approver = site.start_approver();
        }
        left_ms = left_ms.saturating_sub(LOOK_MS);
        if left_ms == 0 && storm.may_kill("approver") {
            block_in_place(|| approver.kill9()).unwrap();
            left_ms = chance.between(APPROVER_MS.0, APPROVER_MS.1);
        }
    }
    Box::new(approver)
}

async fn redis_lives(storm: Arc<Storm>, mut redis: RedisServer) -> Standing {
    let mut chance = storm.chance(2);
    while storm.pause(chance.between(REDIS_MS.0, REDIS_MS.1)).await && storm.may_kill("redis") {
        storm.store_is_down(true);
        block_in_place(|| redis.kill9()).unwrap();
        storm.pause(chance.below(AWAY_MS_MAX)).await;
        block_in_place(|| redis.restart()).unwrap();
        storm.store_is_down(false);
    }
    Box::new(redis)
}

async fn rabbit_lives(storm: Arc<Storm>, mut rabbit: Box<RabbitServer>) -> Standing {
    let mut chance = storm.chance(3);
    while storm.pause(chance.between(RABBIT_MS.0, RABBIT_MS.1)).await && storm.may_kill("rabbitmq")
    {
        block_in_place(|| rabbit.kill9()).unwrap();
        block_in_place(|| rabbit.restart()).unwrap();
    }
    rabbit
}
