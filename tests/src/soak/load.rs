//! Senders and callers who start runs all the time, and write down what they were promised.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinHandle;

use super::storm::Storm;
use super::targets::Site;
use crate::processes::signed_hook;

/// The pause between two starts over the API, and between two deliveries, in milliseconds.
const CALL_MS: u64 = 150;
const HOOK_MS: u64 = 200;

/// Everything that was answered with 202.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Run ids.
    pub(super) accepted: Vec<String>,
    /// Deliveries that were answered with two different runs.
    pub(super) torn: u64,
    /// Asked, and not answered with a 202.
    pub(super) refused: u64,
}

pub(super) struct Load {
    callers: JoinHandle<Sent>,
    senders: JoinHandle<Sent>,
}

pub(super) fn start(site: &Arc<Site>, storm: &Arc<Storm>) -> Load {
    let callers = tokio::spawn(call(Arc::clone(site), Arc::clone(storm)));
    let senders = tokio::spawn(deliver(Arc::clone(site), Arc::clone(storm)));
    Load { callers, senders }
}

impl Load {
    /// What was accepted until the storm was over.
    pub(super) async fn stop(self) -> Sent {
        let mut all = self.callers.await.expect("callers do not panic");
        let sent = self.senders.await.expect("senders do not panic");
        all.accepted.extend(sent.accepted);
        Sent { accepted: all.accepted, torn: sent.torn, refused: all.refused + sent.refused }
    }
}

async fn call(site: Arc<Site>, storm: Arc<Storm>) -> Sent {
    let mut chance = storm.chance(4);
    let mut sent = Sent::default();
    while storm.pause(CALL_MS).await {
        let agent = match chance.below(10) {
            0..=3 => "plain",
            4..=6 => "asker",
            7 | 8 => "repeats",
            9.. => "slow",
        };
        match site.api(chance.next()).try_run(agent, json!({})).await {
            Ok(run) => sent.accepted.push(run),
            Err(_) => sent.refused += 1,
        }
    }
    sent
}

/// Each delivery is sent until it is accepted, by whoever is there; one in five once more.
async fn deliver(site: Arc<Site>, storm: Arc<Storm>) -> Sent {
    let mut chance = storm.chance(5);
    let mut sent = Sent::default();
    for n in 0_u64.. {
        let (id, body) = (format!("msg-{n}"), format!("{{\"delivery\":{n}}}"));
        let mut times = if chance.one_in(5) { 2 } else { 1 };
        let mut told: Option<String> = None;
        while 0 < times {
            if !storm.pause(HOOK_MS).await {
                return sent;
            }
            #[expect(clippy::disallowed_methods, reason = "a sender has a clock")]
            let now = std::time::SystemTime::now();
            let headers = signed_hook(&id, now, &body);
            let answer = site.api(chance.next()).try_hook("push", &headers, &body).await;
            let Some((202, answer, _)) = answer else {
                sent.refused += 1;
                continue;
            };
            times -= 1;
            let run = answer["run_id"].as_str().unwrap().to_owned();
            if told.as_ref().is_some_and(|before| *before != run) {
                sent.torn += 1;
            }
            sent.accepted.push(run.clone());
            told = Some(run);
        }
    }
    sent
}
