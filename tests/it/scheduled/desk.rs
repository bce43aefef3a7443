//! A scheduler that serves on a free port, with its own engine and sweeper, as a process has.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use portcullis_engine::Engine;
use portcullis_engine::surroundings::System;
use portcullis_engine::sweep::Sweeper;
use portcullis_proto::digest::Digest;
use portcullis_proto::job::{Attendance, Limits};
use portcullis_scheduler::Scheduler;
use portcullis_scheduler::reminders::calendar::Rule;
use portcullis_scheduler::settings::{
    Agent, Approver, CatchUp, Notary, Overlap, Reminder, Settings, Webhook,
};
use portcullis_scheduler::webhooks::verify::Scheme;
use portcullis_tests::home::{Home, PATIENCE};
use ring::signature::Ed25519KeyPair;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const SECRET: &str = "0123456789abcdef";

/// A serving scheduler.
pub(super) struct Desk {
    pub(super) address: SocketAddr,
    client: reqwest::Client,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// A reminder for every second, which acts once each.
pub(super) fn every_second(settings: &mut Settings) {
    let reminder = Reminder {
        agent: "plain".parse().unwrap(),
        tenant: "default".parse().unwrap(),
        rule: Rule::every(1_000, 0).unwrap(),
        input: json!({ "what": "tick" }),
        catch_up: CatchUp::One,
        overlap: Overlap::Allow,
        attendance: Attendance::Unattended,
    };
    settings.reminders.insert("second".parse().unwrap(), reminder);
}

fn settings(home: &Home) -> Settings {
    let mut settings = Settings::nothing((Ipv4Addr::LOCALHOST, 0).into());
    for name in ["plain", "asker"] {
        let limits = Limits::default();
        let agent = Agent { description: String::new(), limits, start_by_ms: 60_000 };
        settings.agents.insert(name.parse().unwrap(), agent);
    }
    let webhook = Webhook {
        agent: "plain".parse().unwrap(),
        tenant: "default".parse().unwrap(),
        scheme: Scheme::github(&[SECRET]).unwrap(),
        body_bytes_max: 1_024,
    };
    settings.webhooks.insert("github".parse().unwrap(), webhook);
    let approvers = [("alice", "ops"), ("bob", "ops"), ("mallory", "other")];
    settings.approvers = approvers
        .map(|(name, pool)| Approver {
            subject: name.parse().unwrap(),
            token_sha256: vec![Digest::of_bytes(name.as_bytes()).0],
            pools: vec![pool.parse().unwrap()],
        })
        .to_vec();
    settings.roster = home.roster.clone();
    settings.keys = Arc::clone(&home.keys);
    // The pair that the home's key ring knows as its notary.
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    settings.notary = Some(Notary { key_id: "notary".to_owned(), pair });
    settings
}

impl Desk {
    pub(super) async fn open(home: &Home, change: impl FnOnce(&mut Settings)) -> Self {
        // Already installed by another test of this process, or now: both will do.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut settings = settings(home);
        change(&mut settings);
        let (store, bus) = (Arc::clone(&home.engine.store), Arc::clone(&home.engine.bus));
        let engine = Engine::new(store, bus, Arc::new(System));
        let scheduler = Scheduler::new(Arc::clone(&engine), settings);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let sweeper = Sweeper::new(engine, Arc::clone(&scheduler) as _);
        tasks.spawn(sweeper.run(stop.clone()));
        let (running, token) = (Arc::clone(&scheduler), stop.clone());
        tasks.spawn(async move { running.run(token).await.unwrap() });
        let token = stop.clone();
        tasks.spawn(async move {
            scheduler.serve(listener, axum::Router::new(), token).await.unwrap();
        });
        Self { address, client: reqwest::Client::new(), stop, tasks }
    }

    /// Stops serving, and waits until everything has.
    pub(super) async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(PATIENCE, self.tasks.wait()).await.expect("the scheduler stops");
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(self.url(path)).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(super) async fn post(&self, path: &str, token: Option<&str>, body: Value) -> (u16, Value) {
        let mut request = self.client.post(self.url(path)).json(&body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Sends a webhook as GitHub does.
    pub(super) async fn hook(&self, body: &'static str) -> (u16, Value) {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(body.as_bytes());
        let signature = data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes());
        let request = self
            .client
            .post(self.url("/hooks/github"))
            .header("content-type", "application/json")
            .header("x-hub-signature-256", format!("sha256={signature}"));
        let answer = request.body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Decides a request as it was shown.
    pub(super) async fn decide(&self, shown: &Value, who: &str, verdict: &str) -> (u16, Value) {
        let id = shown["approval_id"].as_str().unwrap();
        let body = json!({
            "verdict": verdict, "nonce": shown["nonce"], "args_hash": shown["args_hash"],
        });
        self.post(&format!("/v1/approvals/{id}/decision"), Some(who), body).await
    }

    /// Asks until the answer is yes.
    pub(super) async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let asking = async {
            while !is_so().await {
                // sleep: a poll of another process's state; bounded by PATIENCE
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{what}"));
    }

    /// Follows the events from now on.
    pub(super) async fn follow(&self) -> Events {
        let answer = self.client.get(self.url("/v1/events")).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut events = Events { answer, text: String::new() };
        events.until("open").await;
        events
    }
}

/// An open stream of events.
pub(super) struct Events {
    answer: reqwest::Response,
    text: String,
}

impl Events {
    /// Reads up to the first event of this name; returns the names on the way.
    pub(super) async fn until(&mut self, name: &str) -> Vec<String> {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != name) {
            let event = self.next().await;
            seen.push(event.unwrap_or_else(|| panic!("the stream ended before {name}: {seen:?}")));
        }
        seen
    }

    /// The next event's name; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let name = event.lines().find_map(|line| line.strip_prefix("event:"));
                let name = name.map(|name| name.trim().to_owned());
                self.text = rest.to_owned();
                match name {
                    Some(name) => return Some(name),
                    None => continue,
                }
            }
            let read = tokio::time::timeout(PATIENCE, self.answer.chunk());
            let part = read.await.expect("an event in time").unwrap()?;
            self.text.push_str(std::str::from_utf8(&part).unwrap());
        }
    }
}
