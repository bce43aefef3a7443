//! Everything that can happen to a run, and every way to be told «no, because».

use std::sync::Arc;

use crate::call::{Status, Traits};
use crate::decision::{Forged, KeyRing, SignedDecision, SignedExtension};
use crate::denial::DenialCode;
use crate::digest::Digest;
use crate::ids::{ApprovalId, ClaimId, Nonce, RunId, ToolName};
use crate::job::{Job, Payload};
use crate::policy::{Terms, Verdict};
use crate::run::{Outcome, Reason};
use crate::time::Ms;

/// How the run above this one stands, as far as the claiming worker could find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parentage {
    /// The job has no parent.
    None,
    Live,
    Ended,
}

/// What is needed to put a call to people.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    pub terms: Terms,
    /// Random: a decision cannot be older than its request.
    pub nonce: Nonce,
    pub policy_epoch: u64,
}

/// The gate's answer for a call that is being planned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Gating {
    Allow,
    Ask(Ask),
    Deny { code: DenialCode, detail: Option<String> },
}

/// One call, frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlannedCall {
    pub tool: ToolName,
    pub args: Payload,
    pub args_hash: Digest,
    pub fingerprint: Digest,
    pub traits: Traits,
    pub gating: Gating,
}

/// What a worker shows to be allowed to start a call.
#[derive(Clone, Debug)]
pub struct Start {
    /// Of the arguments that are about to be passed, computed again.
    pub args_hash: Digest,
    /// The gate, worked out again from the worker's own policy.
    pub verdict: Verdict,
    pub keys: Arc<KeyRing>,
}

/// Other arguments for a call that people are asked about, validated and narrower than before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Edit {
    pub args: Payload,
    pub args_hash: Digest,
    pub fingerprint: Digest,
    /// Of the request that takes the place of the present one. Random.
    pub nonce: Nonce,
}

/// Something that happened, or that somebody wants to happen.
#[derive(Clone, Debug)]
pub enum Event {
    /// A trigger offers a job.
    Accepted {
        id: RunId,
        job: Box<Job>,
    },
    Claim {
        claim: ClaimId,
        parentage: Parentage,
    },
    Renew {
        claim: ClaimId,
    },
    /// A turn was planned: nothing of it has run.
    Planned {
        claim: ClaimId,
        calls: Vec<PlannedCall>,
        definition: Option<Payload>,
    },
    /// The gate now asks about a call that it allowed when it was planned.
    NeedApproval {
        claim: ClaimId,
        seq: u32,
        ask: Ask,
    },
    /// The gate now refuses a call that has not started.
    GateClosed {
        claim: ClaimId,
        seq: u32,
        code: DenialCode,
        detail: Option<String>,
    },
    StartTool {
        claim: ClaimId,
        seq: u32,
        start: Start,
    },
    SpawnChild {
        claim: ClaimId,
        seq: u32,
        start: Start,
        child: RunId,
        job: Box<Job>,
    },
    FinishTool {
        claim: ClaimId,
        seq: u32,
        status: Status,
        result: Payload,
    },
    ChildCreated {
        seq: u32,
    },
    ChildDone {
        seq: u32,
        child: RunId,
        outcome: Outcome,
        result: Payload,
    },
    Park {
        claim: ClaimId,
    },
    /// The worker lets go without an end: it drains, or wants to try again later.
    Release {
        claim: ClaimId,
        backoff_ms: Option<i64>,
        why: String,
    },
    /// The agent says it is done.
    Done {
        claim: ClaimId,
        output: Option<Payload>,
    },
    Fail {
        claim: ClaimId,
        reason: Reason,
    },
    Cancel {
        by: String,
        reason: Reason,
    },
    /// Time passed.
    Tick,
    /// A wake is known not to have reached a queue.
    WakeFailed,
    /// The store was opened by the only process that may have it: whoever held a claim is gone.
    WorkersGone,
    Published {
        approval: ApprovalId,
        rev: u32,
    },
    /// The broker returned the request: no queue is bound for it.
    Unroutable {
        approval: ApprovalId,
        rev: u32,
    },
    /// `member_now`: whether the approver still belongs to the request's pool.
    Decide {
        signed: Box<SignedDecision>,
        standing: Standing,
        keys: Arc<KeyRing>,
    },
    /// An approver allows a narrower call than was asked about. The caller has validated it; the
    /// decision names the present request and the digest of the edited call.
    DecideEdited {
        signed: Box<SignedDecision>,
        standing: Standing,
        keys: Arc<KeyRing>,
        edit: Box<Edit>,
    },
    /// An approver asks for more time.
    Extend {
        signed: Box<SignedExtension>,
        standing: Standing,
        keys: Arc<KeyRing>,
    },
    /// The store found the request's licence key gone.
    LicenceGone {
        approval: ApprovalId,
    },
    /// The policy epoch is no longer the one the request was made under.
    PolicyChanged {
        approval: ApprovalId,
    },
    ParentNotified,
    ChildEnded {
        seq: u32,
    },
}

/// Whether an approver belongs to the pool now, by the decider's own configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    Member,
    NoMember,
}

impl Event {
    /// Every name that [`Event::name`] gives.
    pub const NAMES: [&'static str; 28] = [
        "Accepted",
        "Claim",
        "Renew",
        "Planned",
        "NeedApproval",
        "GateClosed",
        "StartTool",
        "SpawnChild",
        "FinishTool",
        "ChildCreated",
        "ChildDone",
        "Park",
        "Release",
        "Done",
        "Fail",
        "Cancel",
        "Tick",
        "WakeFailed",
        "WorkersGone",
        "Published",
        "Unroutable",
        "Decide",
        "DecideEdited",
        "Extend",
        "LicenceGone",
        "PolicyChanged",
        "ParentNotified",
        "ChildEnded",
    ];

    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "Accepted",
            Self::Claim { .. } => "Claim",
            Self::Renew { .. } => "Renew",
            Self::Planned { .. } => "Planned",
            Self::NeedApproval { .. } => "NeedApproval",
            Self::GateClosed { .. } => "GateClosed",
            Self::StartTool { .. } => "StartTool",
            Self::SpawnChild { .. } => "SpawnChild",
            Self::FinishTool { .. } => "FinishTool",
            Self::ChildCreated { .. } => "ChildCreated",
            Self::ChildDone { .. } => "ChildDone",
            Self::Park { .. } => "Park",
            Self::Release { .. } => "Release",
            Self::Done { .. } => "Done",
            Self::Fail { .. } => "Fail",
            Self::Cancel { .. } => "Cancel",
            Self::Tick => "Tick",
            Self::WakeFailed => "WakeFailed",
            Self::WorkersGone => "WorkersGone",
            Self::Published { .. } => "Published",
            Self::Unroutable { .. } => "Unroutable",
            Self::Decide { .. } => "Decide",
            Self::DecideEdited { .. } => "DecideEdited",
            Self::Extend { .. } => "Extend",
            Self::LicenceGone { .. } => "LicenceGone",
            Self::PolicyChanged { .. } => "PolicyChanged",
            Self::ParentNotified => "ParentNotified",
            Self::ChildEnded { .. } => "ChildEnded",
        }
    }
}

/// Why an event changed nothing. Told to its sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reject {
    #[error("no such run")]
    Unknown,
    #[error("the same job was accepted before")]
    Duplicate,
    #[error("the job's key was used before with another input")]
    KeyReused,
    #[error("another worker holds the run")]
    Busy,
    #[error("the run waits")]
    Waiting,
    #[error("the run has ended")]
    Terminal,
    #[error("the claim is no longer the run's")]
    LostClaim,
    #[error("the job names a parent, and it was not looked at")]
    ParentUnknown,
    #[error("calls of the current turn are still open")]
    CallsOpen,
    #[error("a run plans at most {max} calls")]
    TooManyCalls { max: usize },
    #[error("the run has no call {0}")]
    NoSuchCall(u32),
    #[error("the call was started before")]
    AlreadyStarted,
    #[error("the call was not started")]
    NotStarted,
    #[error("the arguments are not the ones that were planned")]
    ArgsMismatch,
    #[error("the gate is closed: {0}")]
    GateClosed(DenialCode),
    #[error("the gate asks for an approval that was never requested")]
    NeedsApproval,
    #[error("the call is not approved")]
    NotApproved,
    #[error("a stored vote does not verify: {0}")]
    VoteForged(Forged),
    #[error("the step's time is over")]
    StepOver,
    #[error("a call can go on: there is nothing to wait for")]
    Runnable,
    #[error("a tool is running")]
    ToolRunning,
    #[error("runs nest at most {max} deep")]
    TooDeep { max: u8 },
    #[error("a run starts at most {max} children")]
    TooManyChildren { max: usize },
    #[error("that child is not this call's")]
    NotThatChild,
    #[error("the run has no such request")]
    UnknownApproval,
    #[error("the request expired at {at}")]
    Late { at: Ms },
    #[error("the request was decided before")]
    AlreadyDecided,
    #[error("it was decided so before")]
    AlreadySo,
    #[error("this approver may not decide this request")]
    NotEligible,
    #[error("the decision is for other arguments")]
    WrongArgs,
    #[error("the decision is for another request")]
    WrongNonce,
    #[error("the decision is not genuine: {0}")]
    Forged(Forged),
    #[error("the request already stays open until {at}, or as long as its run allows")]
    NotLater { at: Ms },
    #[error("that revision is not the current one")]
    StaleRevision,
    #[error("nothing is due")]
    NothingDue,
}

impl Reject {
    /// A stable code for answers, logs and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_run",
            Self::Duplicate => "duplicate",
            Self::KeyReused => "key_reused",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
            Self::Terminal => "terminal",
            Self::LostClaim => "lost_claim",
            Self::ParentUnknown => "parent_unknown",
            Self::CallsOpen => "calls_open",
            Self::TooManyCalls { .. } => "too_many_calls",
            Self::NoSuchCall(_) => "no_such_call",
            Self::AlreadyStarted => "already_started",
            Self::NotStarted => "not_started",
            Self::ArgsMismatch => "args_mismatch",
            Self::GateClosed(_) => "gate_closed",
            Self::NeedsApproval => "needs_approval",
            Self::NotApproved => "not_approved",
            Self::VoteForged(_) => "vote_forged",
            Self::StepOver => "step_over",
            Self::Runnable => "runnable",
            Self::ToolRunning => "tool_running",
            Self::TooDeep { .. } => "too_deep",
            Self::TooManyChildren { .. } => "too_many_children",
            Self::NotThatChild => "not_that_child",
            Self::UnknownApproval => "unknown_approval",
            Self::Late { .. } => "late",
            Self::AlreadyDecided => "already_decided",
            Self::AlreadySo => "already_so",
            Self::NotEligible => "not_eligible",
            Self::WrongArgs => "wrong_args",
            Self::WrongNonce => "wrong_nonce",
            Self::Forged(_) => "forged",
            Self::NotLater { .. } => "not_later",
            Self::StaleRevision => "stale_revision",
            Self::NothingDue => "nothing_due",
        }
    }
}
