//! A real installation under load while its processes and servers are killed at random, for long.
//!
//! Schedulers, workers, an approver, Redis and RabbitMQ (or one `up` and an approver) are each
//! killed with -9 again and again, and started again. What senders were answered, what the approver
//! said and what tools did stands in books that none of them keeps.
//!
//! Authority: the books. A run's own story is held against them, never the other way round.
//! Invariant: a seed chooses who is killed after how long, not what the kernel does with it; two
//! soaks of one seed differ.

mod approver;
mod books;
mod load;
mod report;
mod storm;
mod targets;

use std::sync::Arc;
use std::time::Duration;

pub use approver::{Says, approve_over_amqp, approve_over_http};
pub use report::Report;

use crate::home::Kind;
use crate::processes::{Agent, Installation, Setup};
use crate::servers::RabbitServer;
use storm::Storm;
use targets::Site;

/// What is soaked, and until when: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub kind: Kind,
    pub seed: u64,
    pub kills: u32,
    pub longest: Duration,
}

/// How long a request waits for a decision, in seconds.
const APPROVAL_S: f64 = 3.0;

fn setup() -> Setup {
    let capped = |agent: Agent| agent.limited("hard_cap", "90s");
    let repeats = Agent::new("repeats").appends("again $0").idempotent();
    let slow = Agent::new("slow").runs("echo \"slow $0\" >> effects.log; sleep 5");
    let triggers = "[reminders.second]\nagent = \"plain\"\nevery = \"1s\"\noverlap = \"allow\"\n\
                    catch_up = \"all\"\n[webhooks.push]\nagent = \"asker\"\n\
                    verify.scheme = \"standard-webhooks\"\n\
                    verify.secret_file = \"data/hook.secret\"\n";
    let agents = [
        Agent::new("plain").appends("plain $0"),
        Agent::new("asker").appends("gated $0").gated(),
        repeats,
        slow,
    ];
    Setup {
        slots: 16,
        approval_seconds: APPROVAL_S,
        triggers: triggers.to_owned(),
        ..Setup::of(agents.map(capped).to_vec())
    }
}

/// Soaks, and says what was seen.
///
/// # Panics
/// When the installation cannot be started, or does not come back once the killing is over.
pub async fn soak(plan: &Plan) -> Report {
    let setup = setup();
    let mut installation = match plan.kind {
        Kind::Embedded => Installation::embedded(&setup),
        Kind::Distributed => Installation::with_own_broker(&setup),
    };
    let servers = installation.servers.take();
    let bus_url = servers.as_ref().map(|servers| servers.broker.url());
    let site = Arc::new(Site::new(installation, bus_url));
    let storm = Arc::new(Storm::new(plan));
    let lives = targets::all(&site, &storm, servers).await;
    let load = load::start(&site, &storm);
    let stopped = storm.over().await;
    let sent = load.stop().await;
    // Everybody comes back, and stays.
    let mut standing = Vec::new();
    for life in lives {
        standing.push(life.await.expect("a life does not panic"));
    }
    let report = books::close(&site, &storm, sent, stopped).await;
    drop(standing);
    report
}

/// Whether a broker's queues are on disk, so that a kill leaves them whole.
fn await_queues(broker: &RabbitServer) {
    use portcullis_proto::topology;
    let mut queues = crate::processes::JOB_QUEUES.map(ToOwned::to_owned).to_vec();
    queues.push(topology::INTAKE_QUEUE.to_owned());
    queues.push(format!("approvals.{}", crate::processes::POOL));
    queues.extend((0..topology::BUCKETS_DEFAULT).map(topology::decisions_queue));
    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    broker.await_queues_on_disk(&names).unwrap();
}
