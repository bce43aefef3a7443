//! Those who start runs and decide on them, well and badly: one story per run.
//!
//! Authority: what the server answered. Whether it was right is for [`super::judge`].
//! Invariant: each run has one manner, so that it is known beforehand what may count for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portcullis_proto::decision::Verdict;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{Nonce, RunId};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::bell::Bell;
use super::plan::Plan;
use crate::api::{ApprovalView, Started};
use crate::args::Fault;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::runs::segment;

/// How often a start is tried, with the same key.
const START_TRIES: u32 = 60;
/// Between two looks, in milliseconds; more runs look less often.
const LOOK_MS: u64 = 200;
/// How much later than its cap a run may be told as ended, in milliseconds.
pub(super) const BOUND_MS: i64 = 60_000;
/// How long after the deadline a late yes is said, in seconds.
const LATE_S: f64 = 0.5;
/// How often a decision is replayed.
const REPLAYS: u64 = 3;

/// How a run's request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Approve,
    Deny,
    Replay,
    Opposite,
    Forge,
    Late,
}

impl Manner {
    /// The manners that a plan needs, the ordinary ones first.
    pub(super) fn of(plan: &Plan) -> Vec<Self> {
        let mut manners = vec![Self::Approve, Self::Deny];
        for (fault, manner) in [
            (Fault::Replay, Self::Replay),
            (Fault::Forge, Self::Forge),
            (Fault::Late, Self::Late),
            (Fault::Opposite, Self::Opposite),
        ] {
            if plan.has(fault) {
                manners.push(manner);
            }
        }
        manners
    }

    /// The only verdict that may count.
    pub(super) const fn genuine(self) -> Option<Verdict> {
        match self {
            Self::Approve | Self::Replay | Self::Opposite => Some(Verdict::Approve),
            Self::Deny => Some(Verdict::Deny),
            Self::Forge | Self::Late => None,
        }
    }
}

/// What became of one run.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) manner: Manner,
    /// `None`: it was never accepted.
    pub(super) run: Option<RunId>,
    /// As it was last seen; `None`: the server does not know it.
    pub(super) view: Option<Value>,
    /// Decisions that were said to count, and must not.
    pub(super) taken: u64,
    pub(super) injected: BTreeMap<Fault, u64>,
}

impl Story {
    fn count(&mut self, fault: Fault, times: u64) {
        *self.injected.entry(fault).or_default() += times;
    }

    /// A decision that must be refused was sent.
    fn refused(&mut self, fault: Fault, answer: &Result<Value, Failure>) {
        match answer {
            Ok(_) => {
                self.count(fault, 1);
                self.taken += 1;
            }
            Err(why) if why.exit == Exit::Unreachable => {}
            Err(_) => self.count(fault, 1),
        }
    }
}

/// Everybody outside.
pub(super) struct People<'a> {
    pub(super) client: &'a Client,
    pub(super) bell: Option<&'a Bell>,
    /// In every key, so that no earlier run is found again.
    pub(super) session: String,
    pub(super) runs: u16,
    /// Runs that have begun and not ended.
    pub(super) live: Mutex<Vec<RunId>>,
}

impl People<'_> {
    /// Runs that are not known to have ended.
    pub(super) fn live(&self) -> Vec<RunId> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(LOOK_MS + 2 * u64::from(self.runs))
    }

    /// Starts a run, decides on what it asks, and follows it to its end.
    pub(super) async fn story(&self, number: u16, manner: Manner) -> Story {
        let mut story =
            Story { manner, run: None, view: None, taken: 0, injected: BTreeMap::new() };
        let Some(run) = self.start(number).await else { return story };
        story.run = Some(run.clone());
        self.live.lock().unwrap_or_else(PoisonError::into_inner).push(run.clone());
        if let Some(request) = self.asked(&run).await {
            self.decide(&request, &mut story).await;
        }
        story.view = self.look_until(&run, |view| !view["outcome"].is_null()).await;
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|one| *one != run);
        drop(live);
        story
    }

    async fn start(&self, number: u16) -> Option<RunId> {
        let body = json!({
            "agent": super::AGENT, "idempotency_key": format!("{}-{number}", self.session),
        });
        for _ in 0..START_TRIES {
            match self.client.post::<Started>("/v1/runs", &body).await {
                Ok((started, _)) => return Some(started.run_id),
                Err(why) if matches!(why.exit, Exit::Usage | Exit::NotFound) => return None,
                Err(_) => sleep(self.pause()).await,
            }
        }
        None
    }

    /// Looks until the run is as wanted, or should have ended long ago: the last view.
    async fn look_until(&self, run: &RunId, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let path = format!("/v1/runs/{}", segment(run.as_str()));
        let (mut last, mut until) = (None, None);
        loop {
            match self.client.get::<Value>(&path).await {
                Ok((view, _)) => {
                    if wanted(&view) || !view["outcome"].is_null() {
                        return Some(view);
                    }
                    // By the store's clock, turned into one of ours at the first look.
                    let ms = |name: &str| view[name].as_i64().unwrap_or_default();
                    let left = (ms("hard_cap") - ms("now") + BOUND_MS).max(0);
                    let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
                    until = Some(until.unwrap_or_else(|| Instant::now() + left));
                    last = Some(view);
                }
                Err(why) if why.exit == Exit::NotFound => return None,
                Err(_) => {}
            }
            let late = *until.get_or_insert_with(|| Instant::now() + Duration::from_secs(300));
            if late <= Instant::now() {
                return last;
            }
            sleep(self.pause()).await;
        }
    }

    /// What the run asks, unless it ends first.
    async fn asked(&self, run: &RunId) -> Option<ApprovalView> {
        let waits = |view: &Value| view["waits"][0]["approval_id"].is_string();
        let view = self.look_until(run, waits).await?;
        let id = view["waits"][0]["approval_id"].as_str()?;
        let path = format!("/v1/approvals/{}", segment(id));
        Some(self.client.get::<ApprovalView>(&path).await.ok()?.0)
    }

    async fn decide(&self, seen: &ApprovalView, story: &mut Story) {
        let request = &seen.request;
        let genuine =
            |verdict| Ballot { verdict, nonce: request.nonce, args_hash: request.args_hash };
        let say = async |ballot| send(self.client, seen, ballot).await;
        match story.manner {
            Manner::Approve => drop(say(genuine(Verdict::Approve)).await),
            Manner::Deny => drop(say(genuine(Verdict::Deny)).await),
            Manner::Replay => {
                if let Some(bell) = self.bell {
                    let taken = bell.replay(request, REPLAYS).await;
                    story.count(Fault::Replay, taken);
                }
                // The first one counts unless the bus was faster; the others are repeats.
                for _ in 0..=REPLAYS {
                    let answer = say(genuine(Verdict::Approve)).await;
                    let sent = answer.is_ok_and(|answer| answer["already"] == true);
                    story.count(Fault::Replay, u64::from(sent));
                }
            }
            Manner::Opposite => {
                if say(genuine(Verdict::Approve)).await.is_ok() {
                    let no = say(genuine(Verdict::Deny)).await;
                    story.refused(Fault::Opposite, &no);
                }
            }
            Manner::Late => {
                sleep(Duration::from_secs_f64(seen.seconds_left.max(0.0) + LATE_S)).await;
                let late = say(genuine(Verdict::Approve)).await;
                story.refused(Fault::Late, &late);
            }
            Manner::Forge => self.forge(seen, story).await,
        }
    }

    async fn forge(&self, seen: &ApprovalView, story: &mut Story) {
        let request = &seen.request;
        let yes = Ballot {
            verdict: Verdict::Approve,
            nonce: request.nonce,
            args_hash: request.args_hash,
        };
        let old = send(self.client, seen, Ballot { nonce: Nonce([0; 16]), ..yes }).await;
        story.refused(Fault::Forge, &old);
        let other = Ballot { args_hash: Digest::of_bytes(b"other"), ..yes };
        story.refused(Fault::Forge, &send(self.client, seen, other).await);
        let stranger = self.client.with_token("nobody-knows-this-token");
        story.refused(Fault::Forge, &send(&stranger, seen, yes).await);
        if let Some(bell) = self.bell {
            let taken = bell.forge(request).await;
            story.count(Fault::Forge, taken);
        }
    }
}

/// What is said over HTTP.
#[derive(Clone, Copy)]
struct Ballot {
    verdict: Verdict,
    nonce: Nonce,
    args_hash: Digest,
}

async fn send(client: &Client, seen: &ApprovalView, ballot: Ballot) -> Result<Value, Failure> {
    let Ballot { verdict, nonce, args_hash } = ballot;
    let path = format!("/v1/approvals/{}/decision", segment(seen.request.approval_id.as_str()));
    let body = json!({ "verdict": verdict, "nonce": nonce, "args_hash": args_hash });
    Ok(client.post_as_approver::<Value>(&path, &body, true).await?.0)
}
