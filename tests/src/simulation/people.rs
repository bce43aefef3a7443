//! Those outside: senders of webhooks, approvers of every kind, and forgers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hmac::{Hmac, KeyInit as _, Mac as _};
use portcullis_engine::ports::Source;
use portcullis_proto::approval::Approval;
use portcullis_proto::decision::{Channel, Decision, Signature, SignedDecision, Verdict};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, Nonce, Subject};
use portcullis_proto::request::ApprovalRequest;
use portcullis_proto::time::Ms;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::agents::{SECRET, STARTED, pair};
use super::bus::Parcel;
use super::processes::Processes;
use super::world::World;

/// The people of one seed.
#[derive(Clone)]
pub struct People {
    pub world: Arc<World>,
    pub processes: Arc<Processes>,
}

/// What is decided, as its approver sees it.
#[derive(Clone)]
struct Seen {
    id: ApprovalId,
    nonce: Nonce,
    args_hash: Digest,
    deadline: Ms,
}

impl Seen {
    fn of(approval: &Approval) -> Self {
        let Approval { id, nonce, args_hash, deadline, .. } = approval.clone();
        Self { id, nonce, args_hash, deadline }
    }

    fn decision(&self, who: &str, verdict: Verdict, channel: Channel) -> Decision {
        Decision {
            v: 1,
            approval_id: self.id.clone(),
            nonce: self.nonce,
            args_hash: self.args_hash,
            verdict,
            approver: who.parse().unwrap(),
            channel,
            issued_at: Ms(0),
            reason: None,
        }
    }
}

impl People {
    /// Begins all of their lives.
    pub fn begin(&self, service: bool) {
        let webhooks = self.world.draw(|chance| chance.between(2, 5));
        for number in 0..webhooks {
            tokio::spawn(self.clone().send_webhook(number));
        }
        for who in ["alice", "bob"] {
            tokio::spawn(self.clone().approve_over_http(who));
        }
        if service {
            tokio::spawn(self.clone().approve_over_bus());
        }
    }

    async fn pause(&self, low: u64, high: u64) {
        let ms = self.world.draw(|chance| chance.between(low, high));
        // sleep: in virtual time, which passes at once
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// One request over HTTP to any scheduler: its status and body, if it answers in time.
    async fn call(
        &self,
        path: &str,
        headers: &[(&str, String)],
        body: String,
    ) -> Option<(u16, Value)> {
        let app = self.processes.app()?;
        let mut request = Request::post(path)
            .header("host", "localhost")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::from(body)).expect("a request");
        let answering = app.oneshot(request);
        let answer = tokio::time::timeout(Duration::from_millis(15_000), answering).await.ok()?;
        let answer = answer.expect("a router always answers");
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    async fn send_webhook(self, number: u64) {
        let agents = u64::try_from(STARTED.len()).expect("few");
        let agent = self.world.draw(|chance| chance.below(agents));
        let agent = STARTED[usize::try_from(agent).expect("few")];
        self.pause(0, 40_000).await;
        let body = json!({ "key": format!("w{number}") }).to_string();
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(body.as_bytes());
        let signature = data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes());
        let headers = [("x-hub-signature-256", format!("sha256={signature}"))];
        let mut times = self.world.draw(|chance| chance.between(1, 2));
        while 0 < times {
            let answer = self.call(&format!("/hooks/{agent}"), &headers, body.clone()).await;
            if let Some((202, told)) = &answer {
                let run = told["run_id"].as_str().expect("a run id").to_owned();
                self.world.note("webhooks accepted", || format!("{run} {}", told["duplicate"]));
                self.world.judge.accepted(&run);
                times -= 1;
                if self.world.draw(|chance| chance.one_in(8)) {
                    self.pause(0, 20_000).await;
                    self.call(&format!("/v1/runs/{run}/cancel"), &[], "{}".to_owned()).await;
                }
            }
            self.pause(500, 8_000).await;
        }
    }

    async fn approve_over_http(self, who: &'static str) {
        let (mut known, mut last) = (BTreeSet::new(), None);
        loop {
            self.pause(500, 3_000).await;
            for approval in self.world.judge.open_requests() {
                if known.insert(approval.id.clone()) {
                    let seen = Seen::of(&approval);
                    tokio::spawn(self.clone().answer(who, seen.clone(), last.replace(seen)));
                }
            }
        }
    }

    /// Deals with one request in one of the many ways that people have.
    async fn answer(self, who: &'static str, seen: Seen, last: Option<Seen>) {
        self.pause(0, 6_000).await;
        let other = Seen { nonce: Nonce([9; 16]), ..seen.clone() };
        let changed = Seen { args_hash: Digest::of_bytes(b"other"), ..seen.clone() };
        match self.world.draw(|chance| chance.below(16)) {
            0..6 => self.decide(who, &seen, Verdict::Approve).await,
            6..8 => self.decide(who, &seen, Verdict::Deny).await,
            8..10 => self.world.count("silent approvers"),
            10 | 11 => {
                self.until_past(seen.deadline).await;
                self.world.count("late approvers");
                self.decide(who, &seen, Verdict::Approve).await;
            }
            12 => {
                self.world.count("forgeries");
                self.decide(who, &other, Verdict::Approve).await;
                self.decide(who, &changed, Verdict::Approve).await;
                self.decide("mallory", &seen, Verdict::Approve).await;
            }
            13 => {
                let old = last.unwrap_or(other);
                self.world.count("replays");
                let replayed = Seen { id: seen.id, ..old };
                self.decide(who, &replayed, Verdict::Approve).await;
            }
            14 => {
                self.world.count("double votes");
                self.decide(who, &seen, Verdict::Approve).await;
                self.decide(who, &seen, Verdict::Approve).await;
            }
            _ => {
                self.decide(who, &seen, Verdict::Approve).await;
                self.decide(who, &seen, Verdict::Deny).await;
            }
        }
    }

    async fn until_past(&self, deadline: Ms) {
        while self.world.store.time() < deadline {
            self.pause(200, 900).await;
        }
    }

    /// Votes over HTTP, a few times if there is no answer.
    async fn decide(&self, who: &'static str, seen: &Seen, verdict: Verdict) {
        if verdict == Verdict::Approve && who != "mallory" {
            self.world.judge.says_yes(&seen.decision(who, verdict, Channel::Http));
        }
        let verdict_word = serde_json::to_value(verdict).unwrap();
        let body = json!({
            "verdict": verdict_word, "nonce": seen.nonce, "args_hash": seen.args_hash,
        });
        let headers = [("authorization", format!("Bearer {who}"))];
        let path = format!("/v1/approvals/{}/decision", seen.id);
        for _ in 0..4 {
            let late = seen.deadline <= self.world.store.time();
            match self.call(&path, &headers, body.to_string()).await {
                Some((200, told)) => {
                    if late && told["already"] == json!(false) && verdict == Verdict::Approve {
                        self.world.broken("a late yes was taken", seen.id.as_str());
                    }
                    if who == "mallory" {
                        self.world.broken("a stranger decided", seen.id.as_str());
                    }
                    let who: Subject = who.parse().unwrap();
                    self.world.note("votes counted", || format!("{} {who} {verdict:?}", seen.id));
                    return self.world.judge.was_told(&seen.id, &who, verdict);
                }
                Some((status, _)) if (400..500).contains(&status) => return,
                Some(_) | None => self.pause(300, 4_000).await,
            }
        }
    }

    async fn approve_over_bus(self) {
        let mut requests = self.world.bus.bind("ops".parse().unwrap());
        let mut known = BTreeSet::new();
        while let Some(message) = requests.recv().await {
            let request: ApprovalRequest =
                serde_json::from_slice(&message.body).expect("a request");
            if known.insert(request.approval_id.clone()) {
                let ApprovalRequest { approval_id: id, nonce, args_hash, deadline, .. } = request;
                tokio::spawn(self.clone().answer_by_bus(Seen { id, nonce, args_hash, deadline }));
            }
        }
    }

    async fn answer_by_bus(self, seen: Seen) {
        self.pause(0, 6_000).await;
        match self.world.draw(|chance| chance.below(10)) {
            0..4 => self.post(&seen, Verdict::Approve, 8).await,
            4 => self.post(&seen, Verdict::Deny, 8).await,
            5 => {
                self.until_past(seen.deadline).await;
                self.post(&seen, Verdict::Approve, 8).await;
            }
            6 => {
                self.world.count("forgeries");
                self.post(&seen, Verdict::Approve, 66).await;
            }
            _ => self.world.count("silent approvers"),
        }
    }

    /// Publishes a decision, signed by a key of which only number 8 is carol's.
    async fn post(&self, seen: &Seen, verdict: Verdict, key: u8) {
        let decision = seen.decision("carol", verdict, Channel::Amqp);
        if verdict == Verdict::Approve && key == 8 {
            self.world.judge.says_yes(&decision);
        }
        let sig = pair(key).sign(&decision.signed_bytes());
        let sig = Signature(sig.as_ref().try_into().expect("64 bytes"));
        let signed = SignedDecision { decision, key_id: "carol".to_owned(), sig };
        let body = serde_json::to_vec(&signed).expect("JSON").into();
        let parcel = Parcel { body, message_id: None, redelivered: false };
        for _ in 0..self.world.draw(|chance| chance.between(1, 2)) {
            self.world.bus.deliver(Source::Decisions, parcel.clone(), usize::MAX);
            self.pause(0, 4_000).await;
        }
    }
}
