//! One tool call of a run: what was planned, whether it may run, how far it got.
//!
//! Authority: the run's record; this is a part of it.
//! States: Planned ──start──▶ Started ──finish──▶ Finished;  Planned ──spawn──▶ Spawned ──child
//! done──▶ Finished.
//! Invariant: arguments and their digest are frozen when the call is planned. A call whose gate
//! is refused never leaves Planned.

use serde::{Deserialize, Serialize};

use crate::approval::{Approval, Pending, State};
use crate::denial::Denial;
use crate::digest::{CanonicalError, Digest};
use crate::ids::{RunId, ToolName};
use crate::job::{Job, Payload};
use crate::run::Outcome;
use crate::time::Ms;

/// How often an idempotent call is tried in all.
pub const TRIES_MAX: u8 = 3;
/// How many calls one run may plan in all.
pub const CALLS_MAX: usize = 512;

/// What a second execution would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SideEffect {
    ReadOnly,
    /// Harmless under the same idempotency key.
    Idempotent,
    /// Must never happen twice. What is not declared is this.
    AtMostOnce,
}

impl SideEffect {
    #[must_use]
    pub const fn may_repeat(self) -> bool {
        match self {
            Self::ReadOnly | Self::Idempotent => true,
            Self::AtMostOnce => false,
        }
    }
}

/// What becomes of a run whose call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDenied {
    /// The agent is told and goes on.
    TellModel,
    /// Nothing further is begun; the run ends as `completed_with_denials`.
    EndRun,
}

/// What becomes of a run when nobody knows whether its call took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The run ends as `interrupted`.
    Fail,
    /// The agent is told «outcome unknown» and goes on.
    TellModel,
}

/// A tool's standing properties, frozen into each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Traits {
    pub effect: SideEffect,
    pub timeout_ms: i64,
    pub on_denied: OnDenied,
    pub on_unknown: OnUnknown,
}

/// What the gate said, and what came of asking.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    Allowed,
    Asked(Box<Approval>),
    Refused(Denial),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Succeeded,
    Failed,
    /// Provably never begun.
    NotRun,
    /// Begun, and nobody knows how it ended.
    Unknown,
    /// A child run that ended with denials.
    CompletedWithDenials,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    Planned,
    Started {
        at: Ms,
    },
    /// A child run was ordered; `job` is kept so that any process can make it again.
    Spawned {
        child: RunId,
        job: Box<Job>,
        /// Until the child is known to exist.
        creating: Option<Pending>,
        /// When to look at the child, in case its word was lost.
        check_at: Ms,
    },
    Finished {
        at: Ms,
        status: Status,
        result: Payload,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    pub seq: u32,
    pub turn: u32,
    pub tool: ToolName,
    pub args: Payload,
    pub args_hash: Digest,
    pub fingerprint: Digest,
    pub traits: Traits,
    pub gate: Gate,
    pub progress: Progress,
    /// Executions begun.
    pub tries: u8,
}

impl Call {
    /// May it start now? Time must have been settled first.
    #[must_use]
    pub const fn is_runnable(&self) -> bool {
        if !matches!(self.progress, Progress::Planned) {
            return false;
        }
        match &self.gate {
            Gate::Allowed => true,
            Gate::Asked(approval) => approval.is_approved(),
            Gate::Refused(_) => false,
        }
    }

    /// The refusal of a call that will never run.
    #[must_use]
    pub fn refusal(&self) -> Option<&Denial> {
        match (&self.progress, &self.gate) {
            (Progress::Planned, Gate::Refused(denial)) => Some(denial),
            (Progress::Planned, Gate::Asked(approval)) => approval.refusal(),
            (Progress::Planned, Gate::Allowed)
            | (
                Progress::Started { .. } | Progress::Spawned { .. } | Progress::Finished { .. },
                _,
            ) => None,
        }
    }

    /// Nothing more will come of it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.progress, Progress::Finished { .. }) || self.refusal().is_some()
    }

    /// It waits for somebody else: a decision, or a child.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        match (&self.progress, &self.gate) {
            (Progress::Spawned { .. }, _) => true,
            (Progress::Planned, Gate::Asked(approval)) => approval.is_open(),
            (Progress::Planned, Gate::Allowed | Gate::Refused(_))
            | (Progress::Started { .. } | Progress::Finished { .. }, _) => false,
        }
    }

    #[must_use]
    pub const fn is_started(&self) -> bool {
        matches!(self.progress, Progress::Started { .. })
    }

    /// The request that stands or stood for this call.
    #[must_use]
    pub fn approval(&self) -> Option<&Approval> {
        match &self.gate {
            Gate::Asked(approval) => Some(approval),
            Gate::Allowed | Gate::Refused(_) => None,
        }
    }

    /// The request of a call that has not started.
    pub(crate) fn pending_approval_mut(&mut self) -> Option<&mut Approval> {
        match (&self.progress, &mut self.gate) {
            (Progress::Planned, Gate::Asked(approval)) => Some(approval),
            (Progress::Planned, Gate::Allowed | Gate::Refused(_))
            | (
                Progress::Started { .. } | Progress::Spawned { .. } | Progress::Finished { .. },
                _,
            ) => None,
        }
    }

    /// Approved, and not yet begun: what an alarm must name when the run ends here.
    #[must_use]
    pub fn is_approved_not_run(&self) -> bool {
        matches!((&self.progress, &self.gate),
            (Progress::Planned, Gate::Asked(a)) if matches!(a.state, State::Approved { .. }))
    }
}

/// The digest that a decision signs: this call, in this run, at this place.
///
/// # Errors
/// When the arguments have no canonical form.
pub fn args_hash(
    run: &RunId,
    seq: u32,
    tool: &ToolName,
    args: &serde_json::Value,
) -> Result<Digest, CanonicalError> {
    let args = crate::digest::canonical(args)?;
    Ok(Digest::of_fields(&[
        b"portcullis.call.v1",
        tool.as_str().as_bytes(),
        &args,
        run.as_str().as_bytes(),
        &seq.to_be_bytes(),
    ]))
}

/// The digest of «the same call again», whatever its place.
///
/// # Errors
/// When the arguments have no canonical form.
pub fn fingerprint(tool: &ToolName, args: &serde_json::Value) -> Result<Digest, CanonicalError> {
    let args = crate::digest::canonical(args)?;
    Ok(Digest::of_fields(&[b"portcullis.fingerprint.v1", tool.as_str().as_bytes(), &args]))
}

/// What a child's end means to the call that started it.
#[must_use]
pub const fn status_of_child(outcome: Outcome) -> Status {
    match outcome {
        Outcome::Succeeded => Status::Succeeded,
        Outcome::CompletedWithDenials => Status::CompletedWithDenials,
        Outcome::Failed | Outcome::TimedOut | Outcome::Cancelled => Status::Failed,
        Outcome::Interrupted => Status::Unknown,
    }
}
