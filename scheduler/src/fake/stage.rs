//! A scheduler with some people around it: alice and bob decide for `ops`, mallory for nobody.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use portcullis_engine::Engine;
use portcullis_engine::surroundings::{Surroundings, System};
use portcullis_proto::call::{OnDenied, OnUnknown, SideEffect, Traits, args_hash, fingerprint};
use portcullis_proto::decision::{KeyRing, Speaker};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{
    AgentName, ApprovalId, ClaimId, Nonce, PoolName, RunId, Subject, Tenant, ToolName,
};
use portcullis_proto::job::{Attendance, Limits, Payload};
use portcullis_proto::policy::{Pool, Risk, Roster, Terms};
use portcullis_proto::run::{Ask, Event, Gating, Parentage, PlannedCall};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{FakeBus, FakeStore, START_MS};
use crate::serve::PeerAddress;
use crate::settings::{Agent, Approver, Notary, Settings, Webhook};
use crate::webhooks::verify::Scheme;
use crate::{Scheduler, app};

/// Tokens: alice's and bob's decide for `ops`, mallory's for `other`, the last one only reads.
pub(crate) const ALICE: &str = "alice-token";
pub(crate) const BOB: &str = "bob-token";
pub(crate) const MALLORY: &str = "mallory-token";
pub(crate) const TOKEN: &str = "reading-token";

/// A key pair from a seed.
pub(crate) fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn public(seed: u8) -> [u8; 32] {
    pair(seed).public_key().as_ref().try_into().unwrap()
}

/// Settings of a server on loopback.
pub(crate) fn settings() -> Settings {
    let approver = |name: &str, token: &str, pool: &str| Approver {
        subject: Subject::new(name).unwrap(),
        token_sha256: vec![Digest::of_bytes(token.as_bytes()).0],
        pools: vec![PoolName::new(pool).unwrap()],
    };
    let approvers = vec![
        approver("alice", ALICE, "ops"),
        approver("bob", BOB, "ops"),
        approver("mallory", MALLORY, "other"),
    ];
    let subjects = |names: [&str; 2]| names.map(|name| Subject::new(name).unwrap()).to_vec();
    let pool = Pool { members: subjects(["alice", "bob"]), inbox: subjects(["alice", "bob"]) };
    let mut keys = KeyRing::default();
    assert!(keys.add("notary", Speaker::Notary, public(1)));
    assert!(keys.add("alice-key", Speaker::Approver(Subject::new("alice").unwrap()), public(2)));
    let mut settings = Settings::nothing("127.0.0.1:8080".parse().unwrap());
    settings.agents.insert(
        AgentName::new("greeter").unwrap(),
        Agent { description: String::new(), limits: Limits::default(), start_by_ms: 3_600_000 },
    );
    settings.webhooks.insert(
        "github".parse().unwrap(),
        Webhook {
            agent: AgentName::new("greeter").unwrap(),
            tenant: Tenant::new("acme").unwrap(),
            scheme: Scheme::github(&["0123456789abcdef"]).unwrap(),
            body_bytes_max: 1_024,
        },
    );
    settings.webhooks.insert(
        "open".parse().unwrap(),
        Webhook {
            agent: AgentName::new("greeter").unwrap(),
            tenant: Tenant::new("acme").unwrap(),
            scheme: Scheme::None,
            body_bytes_max: 1_024,
        },
    );
    settings.roster =
        Roster { pools: [(PoolName::new("ops").unwrap(), pool)].into_iter().collect() };
    settings.approvers = approvers;
    settings.keys = Arc::new(keys);
    settings.notary = Some(Notary { key_id: "notary".into(), pair: pair(1) });
    settings.api_tokens = vec![Digest::of_bytes(TOKEN.as_bytes()).0];
    settings
}

/// Local time that passes just as the store's does, and real randomness.
struct Steady(Arc<FakeStore>);

impl Surroundings for Steady {
    fn boot_ms(&self) -> i64 {
        self.0.now_ms()
    }

    fn fill(&self, bytes: &mut [u8]) {
        System.fill(bytes);
    }
}

/// A scheduler, its fakes, and its API.
pub(crate) struct Stage {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<FakeStore>,
    pub(crate) bus: Arc<FakeBus>,
    app: Router,
}

/// A run that waits for a decision.
pub(crate) struct Asked {
    pub(crate) run: RunId,
    pub(crate) approval: ApprovalId,
    pub(crate) nonce: Nonce,
    pub(crate) args_hash: Digest,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: StatusCode,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) json: Value,
}

impl Told {
    /// Status and error code.
    pub(crate) fn no(&self) -> (u16, &str) {
        (self.status.as_u16(), self.json["error"]["code"].as_str().unwrap_or_default())
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::over(FakeStore::at(START_MS), FakeBus::up(), settings)
    }

    /// One more process over the same store and bus.
    pub(crate) fn another(&self, settings: Settings) -> Self {
        Self::over(Arc::clone(&self.store), Arc::clone(&self.bus), settings)
    }

    fn over(store: Arc<FakeStore>, bus: Arc<FakeBus>, settings: Settings) -> Self {
        let engine = Engine::new(store.clone(), bus.clone(), Arc::new(Steady(store.clone())));
        let scheduler = Scheduler::new(Arc::clone(&engine), settings);
        let app = app(&scheduler);
        Self { scheduler, engine, store, bus, app }
    }

    /// Sends a request as a local program does.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Told {
        let peer = PeerAddress("127.0.0.1:50000".parse().unwrap());
        request.extensions_mut().insert(ConnectInfo(peer));
        request.headers_mut().entry("host").or_insert("127.0.0.1:8080".parse().unwrap());
        self.send_raw(request).await
    }

    /// Sends a request just as it is.
    pub(crate) async fn send_raw(&self, request: Request<Body>) -> Told {
        let answer = self.app.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let bytes = to_bytes(body, 1 << 24).await.unwrap();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Told { status: parts.status, headers: parts.headers, json }
    }

    pub(crate) async fn get(&self, path: &str) -> Told {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, token: Option<&str>, body: Value) -> Told {
        let mut request = Request::post(path).header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Starts a run through the API.
    pub(crate) async fn start(&self, key: &str) -> RunId {
        let body = json!({ "agent": "greeter", "input": {}, "idempotency_key": key });
        let told = self.post("/v1/runs", None, body).await;
        assert_eq!(told.status, 202, "{told:?}");
        RunId::new(told.json["run_id"].as_str().unwrap()).unwrap()
    }

    /// Starts a run and lets a worker plan one gated call and park: it waits for `ops`.
    pub(crate) async fn ask(&self, key: &str) -> Asked {
        let run = self.start(key).await;
        let (claim, nonce) = (ClaimId([9; 16]), Nonce([7; 16]));
        let (tool, args) = (ToolName::new("deploy").unwrap(), json!({ "to": key }));
        let hash = args_hash(&run, 0, &tool, &args).unwrap();
        let subjects = ["alice", "bob"].map(|name| Subject::new(name).unwrap()).to_vec();
        let terms = Terms {
            pool: PoolName::new("ops").unwrap(),
            risk: Risk::High,
            need: 1,
            eligible: subjects,
            inbox: true,
            levels: vec![],
        };
        let call = PlannedCall {
            args_hash: hash,
            fingerprint: fingerprint(&tool, &args).unwrap(),
            tool,
            args: Payload::Inline(args),
            traits: Traits {
                effect: SideEffect::AtMostOnce,
                timeout_ms: 60_000,
                on_denied: OnDenied::TellModel,
                on_unknown: OnUnknown::Fail,
            },
            gating: Gating::Ask(Ask { terms, nonce, policy_epoch: 1 }),
        };
        let events = [
            Event::Claim { claim, parentage: Parentage::None },
            Event::Planned { claim, calls: vec![call], definition: None },
            Event::Park { claim },
        ];
        let held = self.engine.send(&run, &events).await.unwrap();
        let approval = held.run().calls[0].approval().unwrap().id.clone();
        Asked { run, approval, nonce, args_hash: hash }
    }

    /// Decides over HTTP.
    pub(crate) async fn decide(&self, asked: &Asked, token: &str, verdict: &str) -> Told {
        let body = json!({
            "verdict": verdict, "nonce": asked.nonce, "args_hash": asked.args_hash,
        });
        let path = format!("/v1/approvals/{}/decision", asked.approval);
        self.post(&path, Some(token), body).await
    }
}

/// Whether a run that asked may go on.
pub(crate) async fn is_approved(stage: &Stage, asked: &Asked) -> bool {
    let (held, _) = stage.engine.load(&asked.run).await.unwrap();
    held.unwrap().run().approval(&asked.approval).unwrap().1.is_approved()
}

/// What a session of an approver is.
pub(crate) fn session(of: &str) -> Attendance {
    Attendance::Session { approver: Subject::new(of).unwrap() }
}
