//! How do people see what waits for them, and how does their word count?
//!
//! Authority: the run's record. The scheduler only witnesses: it signs, with its notary key, who
//! proved to be whom and what they said about which exact call.
//! Invariant: a decision is acknowledged only once it is durable, and never without a credential.
//! If we crash here: the approver got no answer, asks again, and is told what became of it.

use std::sync::Arc;

use portcullis_engine::{Held, StepError, trace};
use portcullis_proto::decision::{Channel, Decision, Signature, SignedDecision, Verdict};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, Nonce, PoolName, Subject};
use portcullis_proto::run::{Event, Reject, Standing, effective};
use portcullis_proto::time::Ms;
use tracing::{Instrument as _, info, warn};

use crate::Scheduler;
use crate::credentials::Proven;
use crate::view::ApprovalView;

/// What an approver said about one request.
#[derive(Clone, Debug)]
pub(crate) struct Ballot {
    pub(crate) verdict: Verdict,
    pub(crate) nonce: Nonce,
    pub(crate) args_hash: Digest,
    pub(crate) channel: Channel,
    pub(crate) reason: Option<String>,
}

/// Why a ballot was not counted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDecided {
    #[error("this scheduler has no notary key: nothing that comes in over HTTP can be decided")]
    NoNotary,
    #[error(transparent)]
    Step(#[from] StepError),
}

/// A counted ballot: how the request stands, and whether it had been counted before.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) view: ApprovalView,
    pub(crate) already: bool,
}

fn unknown() -> StepError {
    StepError::Rejected { reject: Reject::UnknownApproval, place: 0, held: None }
}

impl Scheduler {
    /// Every pool that may have open requests.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &PoolName> {
        let of_approvers = self.settings.approvers.iter().flat_map(|approver| &approver.pools);
        let mut pools: Vec<_> = self.settings.roster.pools.keys().chain(of_approvers).collect();
        pools.sort();
        pools.dedup();
        pools.into_iter()
    }

    /// Open requests over all pools (or of one), the most urgent first.
    pub(crate) async fn open_approvals(
        &self,
        pool: Option<&PoolName>,
        limit: usize,
    ) -> Result<Vec<ApprovalView>, StepError> {
        let mut entries = Vec::new();
        for pool in self.pools().filter(|known| pool.is_none_or(|wanted| wanted == *known)) {
            entries.extend(self.list_all(&format!("ask.{pool}"), limit).await?);
        }
        entries.sort_by(|a, b| (a.score, &a.member).cmp(&(b.score, &b.member)));
        entries.truncate(limit);
        let ids: Vec<_> =
            entries.iter().filter_map(|e| ApprovalId::new(e.member.as_str()).ok()).collect();
        let mut runs: Vec<_> = ids.iter().map(ApprovalId::run).collect();
        runs.sort();
        runs.dedup();
        let loaded = self.load_all(runs.into_iter()).await?;
        let runs: Vec<_> =
            loaded.iter().map(|(held, now)| (effective(held.run(), *now), *now)).collect();
        let views = ids.iter().filter_map(|id| {
            let (run, now) = runs.iter().find(|(run, _)| run.id == id.run())?;
            ApprovalView::of(run, id, *now)
        });
        // What has expired or been decided since the list was read is open no more.
        Ok(views.filter(ApprovalView::is_open).collect())
    }

    /// One request, open or not, as time has decided it. Its arguments are shown whole.
    pub(crate) async fn approval(&self, id: &ApprovalId) -> Result<ApprovalView, StepError> {
        let (held, now) = self.engine.load(&id.run()).await?;
        let held = held.ok_or_else(unknown)?;
        let mut view =
            ApprovalView::of(&effective(held.run(), now), id, now).ok_or_else(unknown)?;
        self.show(&id.run(), view.args_mut()).await?;
        Ok(view)
    }

    /// Counts one ballot of a proven approver.
    pub(crate) async fn decide(
        &self,
        id: &ApprovalId,
        approver: &Proven,
        ballot: Ballot,
    ) -> Result<Decided, NotDecided> {
        let (verdict, channel) = (ballot.verdict, ballot.channel);
        let decided = self.try_decide(id, approver, ballot).await;
        let by = &approver.subject;
        match &decided {
            Ok(Decided { already: false, .. }) => {
                self.engine.meters.decided("counted");
                info!(approval.id = %id, %by, ?verdict, ?channel, "decided");
            }
            Ok(Decided { already: true, .. }) => self.engine.meters.decided("already_so"),
            Err(NotDecided::Step(StepError::Rejected { reject, .. })) => {
                self.engine.meters.decided(reject.code());
                warn!(approval.id = %id, %by, ?verdict, ?channel, %reject, "decision refused");
            }
            Err(why) => {
                self.engine.meters.decided("unavailable");
                warn!(approval.id = %id, %by, ?verdict, ?channel, %why, "decision not counted");
            }
        }
        decided
    }

    async fn try_decide(
        &self,
        id: &ApprovalId,
        approver: &Proven,
        ballot: Ballot,
    ) -> Result<Decided, NotDecided> {
        let (held, now) = self.engine.load(&id.run()).await?;
        let held = held.ok_or_else(unknown)?;
        let (_, request) = held.run().approval(id).ok_or_else(unknown)?;
        // A token speaks for its own pools only, whatever else its subject belongs to.
        let spoken_for = request.pools().filter(|pool| approver.pools.contains(pool));
        let standing = self.standing(spoken_for, &approver.subject);
        let signed = Box::new(self.witness(id, approver, ballot, now)?);
        let keys = Arc::clone(&self.settings.keys);
        let event = Event::Decide { signed, standing, keys };
        let span = trace::decision(id, held.run());
        match self.engine.decide(&id.run(), held, event).instrument(span).await {
            Ok(held) => self.decided(id, &held, false),
            Err(StepError::Rejected { reject: Reject::AlreadySo, .. }) => {
                // The first answer may have been «not durable»: asking twice must not turn it
                // into a yes.
                let held = self.engine.confirm(&id.run()).await?;
                self.decided(id, &held, true)
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Whether somebody belongs, now, to any of the pools that were asked.
    pub(crate) fn standing<'a>(
        &self,
        mut asked: impl Iterator<Item = &'a PoolName>,
        who: &Subject,
    ) -> Standing {
        if asked.any(|pool| self.settings.roster.is_member(pool, who)) {
            Standing::Member
        } else {
            Standing::NoMember
        }
    }

    fn decided(&self, id: &ApprovalId, held: &Held, already: bool) -> Result<Decided, NotDecided> {
        let view = ApprovalView::of(&effective(held.run(), held.now), id, held.now);
        Ok(Decided { view: view.ok_or_else(unknown)?, already })
    }

    /// Signs what a proven approver said.
    fn witness(
        &self,
        id: &ApprovalId,
        approver: &Proven,
        ballot: Ballot,
        now: Ms,
    ) -> Result<SignedDecision, NotDecided> {
        let notary = self.settings.notary.as_ref().ok_or(NotDecided::NoNotary)?;
        let decision = Decision {
            v: 1,
            approval_id: id.clone(),
            nonce: ballot.nonce,
            args_hash: ballot.args_hash,
            verdict: ballot.verdict,
            approver: approver.subject.clone(),
            channel: ballot.channel,
            issued_at: now,
            reason: ballot.reason,
        };
        let signature = notary.pair.sign(&decision.signed_bytes());
        let sig =
            Signature(signature.as_ref().try_into().expect("an Ed25519 signature has 64 bytes"));
        Ok(SignedDecision { decision, key_id: notary.key_id.clone(), sig })
    }
}
