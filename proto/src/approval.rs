//! One request for a human decision: who was asked, by when, and how it stands.
//!
//! Authority: the run's record; this is a part of it. The licence key in the store repeats the
//! deadline as an expiry, and both must hold.
//! States: Requested ──votes──▶ Approved;  anything else ──▶ Refused. «Used» is the call's own
//! progress: one truth, not two. A request grows (a later deadline, further approvers) under its
//! id with a higher revision; other arguments make it another request.
//! Invariant: a refusal is final, and time alone can only refuse.

use serde::{Deserialize, Serialize};

use crate::decision::{SignedDecision, Verdict};
use crate::denial::{Denial, DenialCode};
use crate::digest::Digest;
use crate::ids::{ApprovalId, Nonce, PoolName, Subject};
use crate::policy::Risk;
use crate::time::Ms;

/// An approved call must start within this time of the decision, in milliseconds.
pub const USE_BY_MS: i64 = 15 * 60_000;
/// A request ends this long before its run's hard cap, so that the denial can still be told.
pub const CAP_RESERVE_MS: i64 = 10_000;
/// With less time than this nobody could answer: the request is denied at once.
pub const NOTICE_MS_MIN: i64 = 1_000;
/// Delivery is tried again after 5 s, then twice as long each time, at most 5 minutes.
pub const RETRY_MS_FIRST: i64 = 5_000;
pub const RETRY_MS_MAX: i64 = 300_000;

/// Something to be done again until it is known to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pending {
    pub tries: u8,
    pub again_at: Ms,
}

impl Pending {
    /// Due again in [`RETRY_MS_FIRST`]: the first try is made right after the commit.
    #[must_use]
    pub const fn first(now: Ms) -> Self {
        Self { tries: 1, again_at: now.plus(RETRY_MS_FIRST) }
    }

    #[must_use]
    pub fn next(self, now: Ms) -> Self {
        let wait = RETRY_MS_FIRST.saturating_mul(1 << self.tries.min(8));
        Self { tries: self.tries.saturating_add(1), again_at: now.plus(wait.min(RETRY_MS_MAX)) }
    }
}

/// Did the request get to where approvers can see it?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Not known to be on any queue; tried again by the run's timer.
    Unsent(Pending),
    /// On at least one queue, confirmed.
    Published,
    /// No queue is bound; those with an inbox see it all the same.
    InboxOnly,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Requested(Delivery),
    /// Enough votes came in time. The call may start before `use_by`, once.
    Approved {
        at: Ms,
        use_by: Ms,
    },
    Refused(Denial),
}

/// One approver's word, with its proof: `StartTool` verifies it a second time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vote {
    pub at: Ms,
    pub signed: SignedDecision,
}

/// Further approvers, asked from `at` on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Level {
    pub at: Ms,
    pub pool: PoolName,
    pub add: Vec<Subject>,
    pub inbox: bool,
}

/// The request that this one took the place of, when an approver changed the arguments. The
/// approver's vote names it, for this one did not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replaced {
    pub id: ApprovalId,
    pub nonce: Nonce,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Approval {
    pub id: ApprovalId,
    /// Rises with every publish of new content; screens keep the highest.
    pub rev: u32,
    pub nonce: Nonce,
    pub args_hash: Digest,
    /// Where the current revision goes.
    pub pool: PoolName,
    /// Where earlier revisions went; those approvers may still answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_pools: Vec<PoolName>,
    pub risk: Risk,
    pub need: u8,
    pub eligible: Vec<Subject>,
    pub inbox: bool,
    /// Who has not been asked yet, earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// Whether an earlier revision is known to be on a queue.
    #[serde(default)]
    pub shown: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Replaced>,
    pub policy_epoch: u64,
    pub asked_at: Ms,
    pub deadline: Ms,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    pub state: State,
}

impl Approval {
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Requested(_))
    }

    #[must_use]
    pub const fn is_approved(&self) -> bool {
        matches!(self.state, State::Approved { .. })
    }

    /// The refusal, if there is one.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Denial> {
        match &self.state {
            State::Refused(denial) => Some(denial),
            State::Requested(_) | State::Approved { .. } => None,
        }
    }

    /// How many approvers said yes.
    #[must_use]
    pub fn approvals(&self) -> usize {
        self.votes.iter().filter(|v| v.signed.decision.verdict == Verdict::Approve).count()
    }

    /// The last vote of a subject, whatever channel it came through.
    #[must_use]
    pub fn vote_of(&self, subject: &Subject) -> Option<&Vote> {
        self.votes.iter().rfind(|vote| vote.signed.decision.approver == *subject)
    }

    /// Every pool that was asked. Who decides must belong to one of them, then and now.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.earlier_pools.iter().chain([&self.pool])
    }

    /// When further approvers are asked, unless it is decided before.
    #[must_use]
    pub fn level_at(&self) -> Option<Ms> {
        self.levels.first().map(|level| level.at)
    }

    /// Asks the next level as well, if there is one.
    pub(crate) fn climb(&mut self) -> bool {
        if self.levels.is_empty() {
            return false;
        }
        let level = self.levels.remove(0);
        self.eligible.extend(level.add);
        self.eligible.sort();
        self.eligible.dedup();
        self.inbox |= level.inbox;
        let pool = std::mem::replace(&mut self.pool, level.pool);
        if !self.pools().any(|known| *known == pool) {
            self.earlier_pools.push(pool);
        }
        true
    }

    /// Makes the next revision, to be published.
    pub(crate) fn revise(&mut self, now: Ms) {
        self.rev = self.rev.saturating_add(1);
        self.shown |= matches!(self.state, State::Requested(Delivery::Published));
        self.state = State::Requested(Delivery::Unsent(Pending::first(now)));
    }

    /// Whether a decision is addressed to this request, or to the one it took the place of.
    pub(crate) fn is_addressed_by(&self, id: &ApprovalId, nonce: &Nonce) -> bool {
        (self.id == *id && self.nonce == *nonce)
            || self.replaces.as_ref().is_some_and(|old| old.id == *id && old.nonce == *nonce)
    }

    /// The message id of the current revision: `<approval>.<rev>`.
    #[must_use]
    pub fn message_id(&self) -> String {
        format!("{}.{}", self.id, self.rev)
    }

    /// A refusal of this request, naming who was asked and for how long.
    #[must_use]
    pub fn denial(&self, code: DenialCode, now: Ms) -> Denial {
        Denial {
            code,
            at: now,
            by: None,
            pool: Some(self.pool.clone()),
            waited_ms: Some(now.since(self.asked_at).max(0)),
            detail: None,
        }
    }

    /// The state as time has decided it by `now`, for a call that has not started.
    #[must_use]
    pub fn at(&self, now: Ms) -> Option<Denial> {
        match self.state {
            State::Requested(_) if self.deadline <= now => {
                Some(self.denial(DenialCode::ApprovalTimedOut, self.deadline.max(self.asked_at)))
            }
            State::Approved { use_by, .. } if use_by <= now => {
                Some(self.denial(DenialCode::GrantStale, use_by))
            }
            State::Requested(_) | State::Approved { .. } | State::Refused(_) => None,
        }
    }

    /// When time next changes something here, for a call that has not started.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Ms> {
        let answer = self.level_at().map_or(self.deadline, |at| at.min(self.deadline));
        match self.state {
            State::Requested(Delivery::Unsent(pending)) => Some(answer.min(pending.again_at)),
            State::Requested(Delivery::Published | Delivery::InboxOnly) => Some(answer),
            State::Approved { use_by, .. } => Some(use_by),
            State::Refused(_) => None,
        }
    }
}
