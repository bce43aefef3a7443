//! The bus, as a faulty or hostile neighbour would use it: wakes again, decisions of no worth.
//!
//! Invariant: what is signed here with the deployment's own key is signed for a request as it was
//! shown; everything else is signed with a key that nobody knows.

use std::path::Path;
use std::sync::Arc;

use portcullis_engine::ports::{Bus as _, Message, Published, Route, Wake};
use portcullis_engine::rabbitmq::RabbitBus;
use portcullis_proto::decision::{Channel, Decision, Signature, SignedDecision, Verdict};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{Nonce, RunId, Subject, Tenant};
use portcullis_proto::request::ApprovalRequest;
use portcullis_proto::topology::Lane;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;

use crate::args::Torture;
use crate::config::{BusPlace, Config};
use crate::exit::{Exit, Failure};
use crate::home;

/// A connection to the broker, and who signs.
pub(super) struct Bell {
    bus: Arc<RabbitBus>,
    /// Names of keys that the deployment knows, and that sign nothing here.
    known: Vec<String>,
    /// Whom a forger would rather be.
    victim: Subject,
    stranger: Ed25519KeyPair,
    signer: Option<Signer>,
}

struct Signer {
    approver: Subject,
    key_id: String,
    pair: Ed25519KeyPair,
}

impl Bell {
    /// Connects; `None` in the embedded home, which has no bus between processes.
    pub(super) async fn open(asked: &Torture, config: &Config) -> Result<Option<Self>, Failure> {
        let BusPlace::Rabbit { url, buckets, declare, .. } = &config.home.bus else {
            return Ok(None);
        };
        let name = format!("portcullis torture {}", std::process::id());
        let signer = signer(asked)?;
        let bus = home::connect(url, *buckets, home::declare_of(*declare), &name).await?;
        let mut known: Vec<String> = config.people.notary.keys().cloned().collect();
        known.extend(asked.key_id.clone());
        let mut members = config.people.roster.pools.values().flat_map(|pool| &pool.members);
        let somebody = members.next().cloned();
        let victim = somebody.map_or_else(|| Subject::new("somebody"), Ok);
        let victim = victim.map_err(|why| failed(why.to_string()))?;
        Ok(Some(Self { bus, known, victim, stranger: new_pair()?, signer }))
    }

    /// Rings twice for each of these runs, in another order: how many the broker took.
    pub(super) async fn ring(&self, runs: &[RunId]) -> u64 {
        let mut wakes: Vec<&RunId> = runs.iter().chain(runs).collect();
        shuffle(&mut wakes);
        let Ok(tenant) = Tenant::new("default") else { return 0 };
        let mut taken = 0;
        for (place, run) in wakes.into_iter().enumerate() {
            let lane = if place % 2 == 0 { Lane::Hi } else { Lane::Lo };
            let wake = Wake { lane, tenant: tenant.clone(), run: run.clone() };
            taken += u64::from(self.bus.wake(wake).await == Published::Confirmed);
        }
        taken
    }

    /// Publishes decisions that must not count: how many the broker took.
    pub(super) async fn forge(&self, request: &ApprovalRequest) -> u64 {
        let mut taken = 0;
        let names = self.known.iter().map(String::as_str).chain(["nobody-1"]);
        for key_id in names {
            let decision = decision(request, &self.victim);
            taken += self.publish(request, &sign(decision, &self.stranger, key_id)).await;
        }
        let Some(signer) = &self.signer else { return taken };
        let genuine = decision(request, &signer.approver);
        let others = [
            Decision { nonce: Nonce([0; 16]), ..genuine.clone() },
            Decision { args_hash: Digest::of_bytes(b"other"), ..genuine },
        ];
        for decision in others {
            taken += self.publish(request, &sign(decision, &signer.pair, &signer.key_id)).await;
        }
        taken
    }

    /// Publishes one genuine yes several times; 0 without a key for it.
    pub(super) async fn replay(&self, request: &ApprovalRequest, times: u64) -> u64 {
        let Some(signer) = &self.signer else { return 0 };
        let decision = decision(request, &signer.approver);
        let signed = sign(decision, &signer.pair, &signer.key_id);
        let mut taken = 0;
        for _ in 0..times {
            taken += self.publish(request, &signed).await;
        }
        taken
    }

    async fn publish(&self, request: &ApprovalRequest, signed: &SignedDecision) -> u64 {
        let Ok(body) = serde_json::to_vec(signed) else { return 0 };
        let message = Message {
            route: Route::Decision { run: request.run_id.clone() },
            message_id: Digest::of_bytes(&body).to_string(),
            expiration_ms: None,
            headers: Vec::new(),
            body: body.into(),
        };
        u64::from(self.bus.publish(message).await == Published::Confirmed)
    }

    pub(super) async fn close(self) {
        self.bus.shutdown().await;
    }
}

fn decision(request: &ApprovalRequest, approver: &Subject) -> Decision {
    Decision {
        v: 1,
        approval_id: request.approval_id.clone(),
        nonce: request.nonce,
        args_hash: request.args_hash,
        verdict: Verdict::Approve,
        approver: approver.clone(),
        channel: Channel::Amqp,
        issued_at: request.asked_at,
        reason: Some("torture".to_owned()),
    }
}

fn sign(decision: Decision, pair: &Ed25519KeyPair, key_id: &str) -> SignedDecision {
    let made = pair.sign(&decision.signed_bytes());
    let sig = Signature(made.as_ref().try_into().expect("an Ed25519 signature has 64 bytes"));
    SignedDecision { decision, key_id: key_id.to_owned(), sig }
}

fn new_pair() -> Result<Ed25519KeyPair, Failure> {
    let bytes = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
    let pair = bytes.and_then(|bytes| {
        Ed25519KeyPair::from_pkcs8(bytes.as_ref()).map_err(|_| ring::error::Unspecified)
    });
    pair.map_err(|_| failed("the system gives no random bytes".to_owned()))
}

fn signer(asked: &Torture) -> Result<Option<Signer>, Failure> {
    let (Some(approver), Some(key), Some(key_id)) = (&asked.approver, &asked.key, &asked.key_id)
    else {
        return Ok(None);
    };
    let usage = |what: String| Failure::new(Exit::Usage, "key", what);
    let approver = Subject::new(approver.as_str()).map_err(|why| usage(why.to_string()))?;
    Ok(Some(Signer { approver, key_id: key_id.clone(), pair: read_pair(key)? }))
}

fn read_pair(file: &Path) -> Result<Ed25519KeyPair, Failure> {
    let usage = |what: String| Failure::new(Exit::Usage, "key", what);
    let bytes = std::fs::read(file)
        .map_err(|why| usage(format!("{} cannot be read: {why}", file.display())))?;
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(&bytes).map_err(|why| {
        usage(format!("{} is no usable key: {why}", file.display()))
            .mend("write an Ed25519 key in PKCS#8, DER")
    })
}

fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let mut bytes = [0; 8];
        // Without random bytes the order stays, which is an order too.
        getrandom::fill(&mut bytes).ok();
        let place = usize::try_from(u64::from_be_bytes(bytes) % (last as u64 + 1)).unwrap_or(0);
        items.swap(last, place);
    }
}

fn failed(message: String) -> Failure {
    Failure::new(Exit::Failed, "bus", message)
}
