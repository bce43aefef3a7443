//! The life of a run: one state, one pure function that moves it.
//!
//! Authority: the record in the store, changed only by commits of what [`apply()`] returned.
//! States: Queued ──claim──▶ Running ──park──▶ Waiting ──answer──▶ Queued … ──▶ Ended. Approvals,
//! votes and children live in the calls and move in any live phase.
//! Invariant: a live run always has a next deadline, never later than its hard cap; an ended run
//! never changes its outcome; no gated call starts without an explicit, timely, matching approval.
//! If we crash anywhere: the record stands, and its timer repeats what it asks for.

mod apply;
mod deadline;
mod effective;
mod event;

use serde::{Deserialize, Serialize};

use crate::approval::Pending;
use crate::call::{Call, OnDenied, Progress, Status};
use crate::denial::Denial;
use crate::ids::{ApprovalId, ClaimId, RunId};
use crate::job::{Job, Payload};
use crate::journal::Entry;
use crate::time::Ms;
use crate::topology::Lane;

pub use apply::{apply, fold};
pub use deadline::{index_entries, next_deadline};
pub use effective::effective;
pub use event::{Ask, Edit, Event, Gating, Parentage, PlannedCall, Reject, Standing, Start};

/// A worker's exclusive hold, renewed by its step's own loop.
pub const LEASE_MS: i64 = 30_000;
/// So many claims in one place, each of which died, make a run poison.
pub const ATTEMPTS_MAX: u8 = 5;
/// A queued run rings again after 30 s, then four times as long each time, at most an hour.
pub const RING_MS_FIRST: i64 = 30_000;
pub const RING_MS_MAX: i64 = 3_600_000;
/// A wake known to have failed is tried after 5 s, then twice as long, at most 5 minutes.
pub const WAKE_RETRY_MS_FIRST: i64 = 5_000;
pub const WAKE_RETRY_MS_MAX: i64 = 300_000;
/// A waiting parent looks at its child this often, in milliseconds.
pub const CHILD_CHECK_MS: i64 = 60_000;
/// A child ends this long before its parent's cap.
pub const CHILD_RESERVE_MS: i64 = 10_000;
/// Terminal records are kept seven days, in milliseconds.
pub const RETAIN_MS: i64 = 7 * 24 * 3_600_000;

/// How a run ended. Only `succeeded` is a success.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    /// It ran to its end, and something it wanted was refused.
    CompletedWithDenials,
    Failed,
    TimedOut,
    Cancelled,
    /// A call was begun and nobody knows how it ended.
    Interrupted,
}

impl Outcome {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::CompletedWithDenials => "completed_with_denials",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Why a run ended: a code for machines and a bounded sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Reason {
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Reason {
    /// The longest detail that is kept, in characters.
    pub const DETAIL_CHARS_MAX: usize = 512;

    #[must_use]
    pub fn of(code: &str) -> Self {
        Self { code: code.to_owned(), detail: None }
    }

    #[must_use]
    pub fn because(code: &str, detail: &str) -> Self {
        let detail = detail.chars().take(Self::DETAIL_CHARS_MAX).collect();
        Self { code: code.to_owned(), detail: Some(detail) }
    }
}

/// The end of a run, and what still has to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ended {
    pub at: Ms,
    pub outcome: Outcome,
    pub reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// Until the parent knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Pending>,
    /// Children that are not known to have ended, by call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelling: Vec<(u32, Pending)>,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Queued {
        lane: Lane,
        /// How often it rang by itself, without those that are known to have reached nobody.
        rings: u8,
        /// How often a wake is known to have failed. Counted apart: after an outage of the bus a
        /// run must not ring as seldom as one that rang in vain for hours.
        #[serde(default, skip_serializing_if = "is_zero")]
        failed: u8,
        ring_at: Ms,
    },
    Running {
        claim: ClaimId,
        lease_until: Ms,
        step_deadline: Ms,
    },
    Waiting,
    Backoff {
        until: Ms,
    },
    Ended(Box<Ended>),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u8) -> bool {
    *count == 0
}

impl Phase {
    /// One word for lists and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "queued",
            Self::Running { .. } => "running",
            Self::Waiting => "waiting",
            Self::Backoff { .. } => "backoff",
            Self::Ended(_) => "ended",
        }
    }
}

/// Every name that [`Phase::name`] gives.
pub const PHASES: [&str; 5] = ["queued", "running", "waiting", "backoff", "ended"];

/// The whole control state of one run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub job: Job,
    pub created: Ms,
    /// When it was first claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Ms>,
    pub hard_cap: Ms,
    pub phase: Phase,
    /// Claims since the last progress.
    pub attempts: u8,
    /// Turns planned so far.
    pub turn: u32,
    /// What is left of the step's time while nobody works on it, in milliseconds.
    pub step_left_ms: i64,
    /// Children started so far, ended ones included.
    #[serde(default)]
    pub children: u8,
    /// The agent's definition as it was when the first turn was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Payload>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
}

impl Run {
    #[must_use]
    pub const fn is_live(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    #[must_use]
    pub const fn ended(&self) -> Option<&Ended> {
        match &self.phase {
            Phase::Ended(ended) => Some(ended),
            Phase::Queued { .. }
            | Phase::Running { .. }
            | Phase::Waiting
            | Phase::Backoff { .. } => None,
        }
    }

    #[must_use]
    pub fn call(&self, seq: u32) -> Option<&Call> {
        usize::try_from(seq).ok().and_then(|at| self.calls.get(at))
    }

    /// The calls of the current turn.
    pub fn turn_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.turn == self.turn)
    }

    /// A call waits, or may start, or all of a turn is done: is there work for a worker?
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.turn_calls().any(Call::is_runnable) || self.turn_calls().all(Call::is_final)
    }

    /// The refused call, if there is one, whose refusal is the end of the run.
    #[must_use]
    pub fn fatal_refusal(&self) -> Option<(&Call, &Denial)> {
        self.calls
            .iter()
            .filter(|call| call.traits.on_denied == OnDenied::EndRun)
            .find_map(|call| call.refusal().map(|denial| (call, denial)))
    }

    #[must_use]
    pub fn approval(&self, id: &ApprovalId) -> Option<(&Call, &crate::approval::Approval)> {
        let call = self.call(id.call())?;
        call.approval().filter(|approval| approval.id == *id).map(|approval| (call, approval))
    }

    /// Whether anything this run wanted was refused, here or in a child.
    #[must_use]
    pub fn has_denials(&self) -> bool {
        self.calls.iter().any(|call| {
            call.refusal().is_some()
                || matches!(
                    call.progress,
                    Progress::Finished { status: Status::CompletedWithDenials, .. }
                )
        })
    }
}

/// May the caller act on the commit before it is known to survive a failover?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// A failover may take it back; losing it repeats work, never an effect.
    Soft,
    /// Answered only once it is on disk, and on every promotable replica.
    Firm,
}

/// What has to be done once the change is durable. All of it is repeated by the run's timer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Ring for this run.
    Wake(Lane),
    /// Publish the request of this approval.
    PublishRequest(ApprovalId),
    /// Make the child of this call, or find that it exists.
    CreateChild(u32),
    /// Look whether the child of this call has ended.
    CheckChild(u32),
    /// Tell the parent how this run ended.
    NotifyParent,
    /// Cancel the child of this call.
    CancelChild(u32),
}

impl Effect {
    /// Whether the run, as it now stands, still asks for this.
    #[must_use]
    pub fn is_due(&self, run: &Run) -> bool {
        let spawned = |seq: &u32| {
            run.is_live()
                && run
                    .call(*seq)
                    .is_some_and(|call| matches!(call.progress, Progress::Spawned { .. }))
        };
        match self {
            Self::Wake(_) => matches!(run.phase, Phase::Queued { .. }),
            Self::PublishRequest(id) => run.approval(id).is_some_and(|(_, a)| a.is_open()),
            Self::CreateChild(seq) | Self::CheckChild(seq) => spawned(seq),
            Self::NotifyParent => run.ended().is_some_and(|ended| ended.notify.is_some()),
            Self::CancelChild(seq) => run
                .ended()
                .is_some_and(|ended| ended.cancelling.iter().any(|(call, _)| call == seq)),
        }
    }
}

/// The next state, and everything that must hold when it is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub next: Run,
    pub not_before: Option<Ms>,
    pub not_after: Option<Ms>,
    pub need_steady_clock: bool,
    pub policy_epoch: Option<u64>,
    pub require: Vec<ApprovalId>,
    pub licences_set: Vec<(ApprovalId, Ms)>,
    pub licences_del: Vec<ApprovalId>,
    pub durability: Durability,
    pub journal: Vec<Entry>,
    pub effects: Vec<Effect>,
}

impl Change {
    /// A write of the run as it stands: nothing happens but the write itself.
    #[must_use]
    pub const fn none(next: Run, durability: Durability) -> Self {
        Self {
            next,
            not_before: None,
            not_after: None,
            need_steady_clock: false,
            policy_epoch: None,
            require: Vec::new(),
            licences_set: Vec::new(),
            licences_del: Vec::new(),
            durability,
            journal: Vec::new(),
            effects: Vec::new(),
        }
    }
}
