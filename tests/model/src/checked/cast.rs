//! Who takes part: one job and its child, their calls, three people and their keys.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::proto::call::{self, OnDenied, OnUnknown, Traits};
use super::proto::decision::{
    Channel, Decision, Extension, KeyRing, Signature, SignedDecision, SignedExtension, Speaker,
    Verdict as Says,
};
use super::proto::digest::Digest;
use super::proto::ids::{ApprovalId, JobKey, Nonce, RunId, ShardCount, Subject, Tenant, ToolName};
use super::proto::job::{Attendance, Job, Limits, Origin, Parent, Payload};
use super::proto::policy::{Level, Risk, Terms, Verdict};
use super::proto::run::{Ask, Gating, PlannedCall, Run};
use super::proto::time::Ms;
use super::scenario::{Call, Scenario};

/// When everything begins, in milliseconds.
pub(super) const T0: i64 = 1_000_000_000;

/// Asked from the beginning; asked at the second level; never asked.
pub(super) const PEOPLE: [&str; 4] = ["alice", "bob", "carol", "mallory"];

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("32 bytes")
}

static NOTARY: LazyLock<Ed25519KeyPair> = LazyLock::new(|| pair(1));
static FORGER: LazyLock<Ed25519KeyPair> = LazyLock::new(|| pair(2));
static RING: LazyLock<Arc<KeyRing>> = LazyLock::new(|| {
    let mut ring = KeyRing::default();
    let public = NOTARY.public_key().as_ref().try_into().expect("32 bytes");
    assert!(ring.add("notary", Speaker::Notary, public));
    Arc::new(ring)
});

pub(super) fn keys() -> Arc<KeyRing> {
    Arc::clone(&RING)
}

type Signatures = HashMap<(Vec<u8>, bool), Signature>;
static SIGNATURES: LazyLock<Mutex<Signatures>> = LazyLock::new(Mutex::default);

/// Signing is slow, and the same few words are said over and over.
fn sign(bytes: Vec<u8>, genuine: bool) -> Signature {
    let mut known = SIGNATURES.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry((bytes, genuine)).or_insert_with_key(|(bytes, genuine)| {
        let pair = if *genuine { &NOTARY } else { &FORGER };
        Signature(pair.sign(bytes).as_ref().try_into().expect("64 bytes"))
    })
}

pub(super) fn subject(who: usize) -> Subject {
    Subject::new(PEOPLE[who]).expect("a name")
}

pub(super) fn tool(call: usize) -> ToolName {
    ToolName::new(["first", "second"][call]).expect("a name")
}

/// The arguments as planned, and as edited.
pub(super) fn args(edited: bool) -> Value {
    if edited { json!({ "to": "one" }) } else { json!({ "to": "all" }) }
}

fn tenant() -> Tenant {
    Tenant::new("t").expect("a name")
}

pub(super) fn job(scenario: &Scenario) -> Job {
    let input = json!({});
    Job {
        key: JobKey::api(&tenant(), b"job"),
        tenant: tenant(),
        agent: "agent".parse().expect("a name"),
        input_hash: Digest::of_json(&input).expect("plain JSON"),
        input: Payload::Inline(input),
        origin: Origin::Api,
        attendance: Attendance::Unattended,
        limits: Limits {
            cap_ms: scenario.cap_ms,
            step_ms: scenario.step_ms,
            approval_ms: scenario.approval_ms,
        },
        start_by: Ms(T0 + 100_000),
        parent: None,
        trace: None,
    }
}

pub(super) fn id_of(job: &Job) -> RunId {
    RunId::of(&job.key, ShardCount::new(1).expect("a power of two"))
}

/// The job of the child that a call becomes.
pub(super) fn child(parent: &Run, call: usize) -> Job {
    let seq = u32::try_from(call).expect("few");
    Job {
        key: JobKey::child(&parent.id, seq),
        parent: Some(Parent {
            run: parent.id.clone(),
            call: seq,
            depth: parent.job.depth() + 1,
            hard_cap: parent.hard_cap,
        }),
        ..parent.job.clone()
    }
}

pub(super) fn terms(call: &Call) -> Terms {
    let level = Level { after_ms: 15_000, pool: pool(1), add: vec![subject(2)], inbox: true };
    Terms {
        pool: pool(0),
        risk: Risk::High,
        need: call.need,
        eligible: call.asked.iter().map(|who| subject(*who)).collect(),
        inbox: call.inbox,
        levels: if call.escalates { vec![level] } else { Vec::new() },
    }
}

fn pool(number: usize) -> super::proto::ids::PoolName {
    ["ops", "leads"][number].parse().expect("a name")
}

pub(super) fn nonce(number: u8) -> Nonce {
    Nonce([number; 16])
}

/// A call as the worker plans it. `truly`: with the digest of what will be passed.
pub(super) fn planned(
    run: &RunId,
    seq: u32,
    at: usize,
    call: &Call,
    asks: Option<Ask>,
    truly: bool,
) -> PlannedCall {
    let stated = args(!truly);
    PlannedCall {
        args_hash: call::args_hash(run, seq, &tool(at), &stated).expect("plain JSON"),
        fingerprint: call::fingerprint(&tool(at), &stated).expect("plain JSON"),
        tool: tool(at),
        args: Payload::Inline(args(false)),
        traits: Traits {
            effect: call.effect,
            timeout_ms: 1_000,
            on_denied: if call.fatal { OnDenied::EndRun } else { OnDenied::TellModel },
            on_unknown: if call.tells { OnUnknown::TellModel } else { OnUnknown::Fail },
        },
        gating: asks.map_or(Gating::Allow, Gating::Ask),
    }
}

/// The gate's answer when the call is planned and when it starts.
pub(super) fn verdict(call: &Call) -> Verdict {
    if call.gated { Verdict::Ask(terms(call)) } else { Verdict::Allow }
}

/// What somebody says about a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word {
    pub id: ApprovalId,
    pub nonce: u8,
    pub hash: [u8; 32],
    pub who: usize,
    pub yes: bool,
    pub lie: Lie,
}

/// What is wrong with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lie {
    /// Nothing.
    None,
    /// Signed by somebody else.
    Key,
    /// About another request.
    Nonce,
    /// About another call.
    Args,
    /// Of somebody who left the pool since.
    Left,
}

impl Word {
    pub(super) fn signed(&self) -> SignedDecision {
        let (nonce, mut hash) = (nonce(self.said_nonce()), self.hash);
        if self.lie == Lie::Args {
            hash[0] ^= 1;
        }
        let decision = Decision {
            v: 1,
            approval_id: self.id.clone(),
            nonce,
            args_hash: Digest(hash),
            verdict: if self.yes { Says::Approve } else { Says::Deny },
            approver: subject(self.who),
            channel: Channel::Cli,
            issued_at: Ms(T0),
            reason: None,
        };
        let sig = sign(decision.signed_bytes(), self.lie != Lie::Key);
        SignedDecision { decision, key_id: "notary".to_owned(), sig }
    }

    fn said_nonce(&self) -> u8 {
        if self.lie == Lie::Nonce { self.nonce.wrapping_add(100) } else { self.nonce }
    }

    pub(super) fn extension(&self, until: Ms) -> SignedExtension {
        let mut hash = self.hash;
        if self.lie == Lie::Args {
            hash[0] ^= 1;
        }
        let extension = Extension {
            v: 1,
            approval_id: self.id.clone(),
            nonce: nonce(self.said_nonce()),
            args_hash: Digest(hash),
            until,
            approver: subject(self.who),
            channel: Channel::Cli,
            issued_at: Ms(T0),
            reason: None,
        };
        let sig = sign(extension.signed_bytes(), self.lie != Lie::Key);
        SignedExtension { extension, key_id: "notary".to_owned(), sig }
    }
}
