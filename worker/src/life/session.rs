//! One claim in this worker's hands: what is committed, and what is gathered to be committed next.
//!
//! Authority: `held` is what the store answered; `preview` is what `apply` says it will become.
//! Invariant: the preview is made by the same pure function that the commit is, so nothing is
//! planned on a state that could not be committed. Nothing acts on the preview.
//! If we crash here: gathered events are lost, and were never acted on.

use std::sync::Arc;
use std::time::Duration;

use portcullis_engine::ports::CommitError;
use portcullis_engine::release::Released;
use portcullis_engine::surroundings::Draw as _;
use portcullis_engine::{Held, StepError};
use portcullis_proto::call::Status;
use portcullis_proto::denial::DenialCode;
use portcullis_proto::ids::{ClaimId, RunId};
use portcullis_proto::job::Payload;
use portcullis_proto::policy::Verdict;
use portcullis_proto::run::{Event, Phase, Reason, Reject, Run, effective, fold};
use serde_json::json;
use tracing::{error, info, warn};

use crate::life::Worker;
use crate::life::turn::StartPlan;

/// The pause between tries while the store is away, in milliseconds.
const OUTAGE_PAUSE_MS: u64 = 250;
/// How long a run rests after a fault of the store or its clock, in milliseconds.
const FAULT_BACKOFF_MS: i64 = 5_000;

/// Why a claim is over without having been closed.
#[derive(Debug)]
pub(super) enum End {
    /// The run is not ours (any more), or has ended.
    Lost(Reject),
    /// The store went away for longer than the lease.
    Outage(String),
    /// Something that should not be: a record this release cannot read, a bug.
    Broken(String),
}

impl End {
    pub(super) fn of(why: StepError) -> Self {
        if why.is_outage() {
            return Self::Outage(why.to_string());
        }
        match why {
            StepError::Rejected { reject, .. } => Self::Lost(reject),
            other @ (StepError::Store(_)
            | StepError::Record(_)
            | StepError::Commit(_)
            | StepError::Contended) => Self::Broken(other.to_string()),
        }
    }
}

impl From<Reject> for End {
    fn from(reject: Reject) -> Self {
        Self::Lost(reject)
    }
}

pub(super) struct Session {
    pub(super) id: RunId,
    pub(super) claim: ClaimId,
    held: Held,
    gathered: Vec<Event>,
    /// The run as it will be; nothing while that is what is held.
    preview: Option<Run>,
    /// Somebody else's word, which is the first of what is gathered until it is committed.
    carries_word: bool,
    pub(super) brain: Option<super::turn::Thinking>,
}

impl Session {
    pub(super) fn new(id: RunId, claim: ClaimId, held: Held) -> Self {
        let (gathered, preview, carries_word, brain) = (Vec::new(), None, false, None);
        Self { id, claim, held, gathered, preview, carries_word, brain }
    }

    /// Begins with a decision that is to be committed together with the claim.
    pub(super) fn carry(&mut self, word: Event) -> Result<(), Reject> {
        self.carries_word = true;
        self.try_gather(word)
    }

    /// The run as it will be once everything gathered is committed.
    pub(super) fn run(&self) -> &Run {
        self.preview.as_ref().unwrap_or_else(|| self.held.run())
    }

    /// Whether the store has answered the claim itself.
    pub(super) fn is_claimed(&self) -> bool {
        matches!(self.held.run().phase,
            Phase::Running { claim, .. } if claim == self.claim)
    }

    /// Whether the decision it began with is committed, whatever became of the run in that commit.
    pub(super) const fn has_said_it(&self) -> bool {
        !self.carries_word
    }

    /// Adds an event to the next commit, if it can be one.
    pub(super) fn try_gather(&mut self, event: Event) -> Result<(), Reject> {
        let now = self.held.now;
        let change =
            fold(Some(self.run()), std::slice::from_ref(&event), now).map_err(|(_, why)| why)?;
        self.preview = Some(change.next);
        self.gathered.push(event);
        Ok(())
    }

    /// Adds an event that must fit.
    pub(super) fn gather(&mut self, event: Event) -> Result<(), End> {
        Ok(self.try_gather(event)?)
    }

    /// Starts over from a newer record; what was gathered is tried on it again, but for the last.
    fn rebase_without_last(&mut self, held: Held) -> Result<(), End> {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.pop();
        // What time has decided since may be the very reason.
        self.preview = Some(effective(held.run(), held.now));
        self.held = held;
        gathered.into_iter().try_for_each(|event| self.gather(event))
    }

    fn settled(&mut self, held: Held) {
        self.preview = None;
        self.held = held;
        self.gathered.clear();
        self.carries_word = false;
    }

    /// Commits what closes the claim. `false`: the run can go on after all.
    pub(super) async fn commit_close(&mut self, worker: &Arc<Worker>) -> Result<bool, End> {
        match self.commit(worker).await {
            Ok(()) => Ok(true),
            // An answer arrived between the look and the commit.
            Err(StepError::Rejected { reject: Reject::Runnable, held: Some(held), .. }) => {
                self.rebase_without_last(*held)?;
                Ok(false)
            }
            Err(other) => Err(End::of(other)),
        }
    }

    /// Commits everything gathered, with patience for an outage while the claim lasts.
    async fn commit(&mut self, worker: &Arc<Worker>) -> Result<(), StepError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        loop {
            let held = Some(self.held.clone());
            match worker.engine.step(&self.id, held, &self.gathered).await {
                Ok(held) => {
                    self.settled(held);
                    return Ok(());
                }
                Err(why) if why.is_outage() && self.may_try_again(worker) => {
                    let pause = Duration::from_millis(OUTAGE_PAUSE_MS);
                    tokio::time::sleep(pause + worker.engine.surroundings.jitter(100)).await;
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// While the lease lasts, by this process's clock. An unanswered claim is not waited for.
    fn may_try_again(&self, worker: &Arc<Worker>) -> bool {
        let now = worker.engine.now_since(&self.held);
        match self.held.run().phase {
            Phase::Running { claim, lease_until, .. } => claim == self.claim && now < lease_until,
            Phase::Queued { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => {
                false
            }
        }
    }

    /// Commits the start of a call. `None`: it may not start, and the run says why.
    pub(super) async fn commit_start(
        &mut self,
        worker: &Arc<Worker>,
        plan: &StartPlan,
    ) -> Result<Option<Released>, End> {
        let held = Some(self.held.clone());
        let why = match worker.engine.start(&self.id, held, &self.gathered).await {
            Ok((held, released)) => {
                self.settled(held);
                return Ok(Some(released));
            }
            Err(why) => why,
        };
        match why {
            StepError::Commit(CommitError::Policy { .. }) => {
                self.void_approval(worker, plan.seq).await?;
                Ok(None)
            }
            // A word does not count on such a clock either; whoever brought it is told.
            StepError::Commit(why @ CommitError::Clock { .. }) if self.carries_word => {
                Err(End::Outage(why.to_string()))
            }
            StepError::Commit(why @ CommitError::Clock { .. }) => {
                warn!(run.id = %self.id, %why, "W010 nothing starts on this clock");
                self.gathered.pop();
                self.rewind()?;
                let claim = self.claim;
                let (backoff_ms, why) = (Some(FAULT_BACKOFF_MS), why.to_string());
                self.gather(Event::Release { claim, backoff_ms, why })?;
                self.commit(worker).await.map_err(End::of)?;
                Err(End::Lost(Reject::LostClaim))
            }
            StepError::Commit(CommitError::NotDurable | CommitError::Unknown(_)) => {
                self.disown_start(worker, plan.seq).await;
                Err(End::Outage("the start of a call was not confirmed".to_owned()))
            }
            StepError::Rejected { reject, held: Some(held), .. } => {
                self.rebase_without_last(*held)?;
                self.refuse(worker, plan, &reject).await?;
                Ok(None)
            }
            other @ (StepError::Rejected { .. }
            | StepError::Store(_)
            | StepError::Record(_)
            | StepError::Commit(_)
            | StepError::Contended) => Err(End::of(other)),
        }
    }

    /// Forgets the last event, which was gathered but cannot be committed.
    fn rewind(&mut self) -> Result<(), End> {
        let gathered = std::mem::take(&mut self.gathered);
        self.preview = None;
        gathered.into_iter().try_for_each(|event| self.gather(event))
    }

    /// The policy epoch moved since the request: what was approved under the old one is void.
    async fn void_approval(&mut self, worker: &Arc<Worker>, seq: u32) -> Result<(), End> {
        let approval = self.run().call(seq).and_then(|call| call.approval()).map(|a| a.id.clone());
        if let Some(approval) = approval {
            worker.engine.policy_changed(&self.id, approval).await.map_err(End::of)?;
        }
        let (held, _) = worker.engine.load(&self.id).await.map_err(End::of)?;
        self.rebase_without_last(held.ok_or(End::Lost(Reject::Unknown))?)
    }

    /// Nothing was run, whatever the record says: says so, if the claim is still ours.
    async fn disown_start(&self, worker: &Arc<Worker>, seq: u32) {
        let result = Payload::Inline(json!({ "error": "not_run", "why": "start not confirmed" }));
        let (claim, status) = (self.claim, Status::NotRun);
        let finish = Event::FinishTool { claim, seq, status, result };
        let why = "the store did not confirm a start".to_owned();
        let release = Event::Release { claim, backoff_ms: Some(FAULT_BACKOFF_MS), why };
        if let Err(why) = worker.engine.send(&self.id, &[finish, release]).await {
            info!(run.id = %self.id, call = seq, %why, "start not disowned");
        }
    }

    /// Answers a start that the rules refuse.
    pub(super) async fn refuse(
        &mut self,
        worker: &Arc<Worker>,
        plan: &StartPlan,
        reject: &Reject,
    ) -> Result<(), End> {
        let (claim, seq) = (self.claim, plan.seq);
        let closed =
            |code, detail: String| Event::GateClosed { claim, seq, code, detail: Some(detail) };
        let event = match (reject, &plan.start.verdict) {
            (Reject::GateClosed(_), Verdict::Deny { code, detail }) => {
                Event::GateClosed { claim, seq, code: *code, detail: detail.clone() }
            }
            (Reject::NeedsApproval, Verdict::Ask(terms)) => {
                let ask = super::turn::ask(worker, terms.clone()).await?;
                Event::NeedApproval { claim, seq, ask }
            }
            (Reject::ArgsMismatch, _) => {
                closed(DenialCode::OperandDrift, "the stored arguments have changed".to_owned())
            }
            (Reject::VoteForged(_) | Reject::WrongArgs | Reject::NotEligible, _) => {
                error!(run.id = %self.id, call = seq, %reject, "W011 a stored vote is not genuine");
                closed(DenialCode::ApprovalStoreUnavailable, reject.to_string())
            }
            (Reject::TooDeep { .. } | Reject::TooManyChildren { .. }, _) => {
                closed(DenialCode::PolicyDenied, reject.to_string())
            }
            (Reject::StepOver, _) => Event::Fail { claim, reason: step_timeout(self.run()) },
            (other, _) => return Err(End::Lost(other.clone())),
        };
        self.gather(event)
    }

    /// Renews the lease; anything but success means the claim is gone.
    pub(super) async fn renew(&mut self, worker: &Arc<Worker>) -> Result<(), StepError> {
        let event = Event::Renew { claim: self.claim };
        let held = Some(self.held.clone());
        let held = worker.engine.step(&self.id, held, std::slice::from_ref(&event)).await?;
        self.settled(held);
        Ok(())
    }

    pub(super) const fn held(&self) -> &Held {
        &self.held
    }

    /// The claim is over and could not be closed: the lease will lapse.
    pub(super) async fn abandon(self, worker: &Arc<Worker>, end: End) {
        match end {
            End::Lost(reject) => info!(run.id = %self.id, %reject, "claim given up"),
            End::Outage(why) => warn!(run.id = %self.id, why, "W012 claim lost to an outage"),
            End::Broken(why) => {
                error!(run.id = %self.id, why, "W013 claim broken");
                let (claim, reason) = (self.claim, Reason::because("internal", &why));
                if let Err(why) =
                    worker.engine.send(&self.id, &[Event::Fail { claim, reason }]).await
                {
                    warn!(run.id = %self.id, %why, "the failure could not be recorded");
                }
            }
        }
    }
}

pub(super) fn step_timeout(run: &Run) -> Reason {
    let seconds = run.job.limits.step_ms / 1_000;
    Reason::because("step_timeout", &format!("the step did not end within its {seconds} s"))
}
