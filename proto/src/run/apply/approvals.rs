//! How a request reaches people, and what their answers do.

use std::cmp::Ordering;

use crate::approval::{Approval, Delivery, State, USE_BY_MS, Vote};
use crate::call::Call;
use crate::decision::{KeyRing, SignedDecision, Verdict};
use crate::denial::{Denial, DenialCode};
use crate::ids::{ApprovalId, Subject};
use crate::journal::Fact;
use crate::run::apply::{Draft, asking};
use crate::run::event::Standing;
use crate::run::{Phase, Reject};

/// The place of the call that this approval belongs to.
pub(super) fn place(draft: &Draft, id: &ApprovalId) -> Result<usize, Reject> {
    let call = draft.next.call(id.call()).filter(|_| id.run() == draft.next.id);
    let current = call.and_then(Call::approval).ok_or(Reject::UnknownApproval)?;
    match id.number().cmp(&current.id.number()) {
        // Another request took its place: the arguments were changed.
        Ordering::Less => Err(Reject::StaleRevision),
        Ordering::Greater => Err(Reject::UnknownApproval),
        Ordering::Equal => usize::try_from(id.call()).map_err(|_| Reject::UnknownApproval),
    }
}

/// The request, if it is still open.
pub(super) fn open(draft: &mut Draft, at: usize) -> Result<&mut Approval, Reject> {
    let live = draft.next.is_live();
    let approval = draft.next.calls[at].pending_approval_mut().ok_or(Reject::AlreadyDecided)?;
    match &approval.state {
        State::Requested(_) => Ok(approval),
        // Its run ended before anybody had decided.
        State::Refused(denial) if !live && denial.code == DenialCode::Withdrawn => {
            Err(Reject::Terminal)
        }
        State::Refused(denial) => Err(why_closed(denial)),
        State::Approved { .. } => Err(Reject::AlreadyDecided),
    }
}

fn why_closed(denial: &Denial) -> Reject {
    match denial.code {
        DenialCode::ApprovalTimedOut | DenialCode::GrantStale => Reject::Late { at: denial.at },
        DenialCode::Denied
        | DenialCode::NoApprover
        | DenialCode::NoTime
        | DenialCode::LicenceGone
        | DenialCode::Withdrawn
        | DenialCode::QuorumUnreachable
        | DenialCode::ApprovalRequiredUnattended
        | DenialCode::PolicyDenied
        | DenialCode::PolicyError
        | DenialCode::OperandDrift
        | DenialCode::ApprovalStoreUnavailable => Reject::AlreadyDecided,
    }
}

pub(super) fn published(draft: &mut Draft, id: &ApprovalId, rev: u32) -> Result<(), Reject> {
    let at = place(draft, id)?;
    let approval = open(draft, at)?;
    if approval.rev != rev {
        return Err(Reject::StaleRevision);
    }
    match approval.state {
        State::Requested(Delivery::Unsent(_) | Delivery::InboxOnly) => {
            approval.state = State::Requested(Delivery::Published);
            draft.note(Fact::Published { approval: id.clone(), rev });
            Ok(())
        }
        State::Requested(Delivery::Published) | State::Approved { .. } | State::Refused(_) => {
            Err(Reject::NothingDue)
        }
    }
}

pub(super) fn unroutable(draft: &mut Draft, id: &ApprovalId, rev: u32) -> Result<(), Reject> {
    let at = place(draft, id)?;
    let now = draft.now;
    let approval = open(draft, at)?;
    if approval.rev != rev {
        return Err(Reject::StaleRevision);
    }
    match approval.state {
        State::Requested(Delivery::Unsent(_)) => {}
        State::Requested(Delivery::Published | Delivery::InboxOnly)
        | State::Approved { .. }
        | State::Refused(_) => return Err(Reject::NothingDue),
    }
    let (inbox, shown) = (approval.inbox, approval.shown);
    let denial = approval.denial(DenialCode::NoApprover, now);
    draft.note(Fact::Unroutable { approval: id.clone() });
    if inbox {
        open(draft, at)?.state = State::Requested(Delivery::InboxOnly);
    } else if asking::escalate(draft, at) {
        // The next level is asked at once.
    } else if shown {
        // Those who have an earlier revision may still answer it.
        open(draft, at)?.state = State::Requested(Delivery::Published);
    } else {
        draft.refuse(at, denial);
        draft.rouse();
    }
    Ok(())
}

/// Counts one decision. A forged or mistaken one is its sender's affair: it must not close the
/// request for everybody else.
pub(super) fn decide(
    draft: &mut Draft,
    signed: &SignedDecision,
    standing: Standing,
    keys: &KeyRing,
) -> Result<(), Reject> {
    let decision = &signed.decision;
    let at = place(draft, &decision.approval_id)?;
    let approval = draft.next.calls[at].approval().ok_or(Reject::UnknownApproval)?;
    keys.verify(signed).map_err(Reject::Forged)?;
    if approval.nonce != decision.nonce {
        return Err(Reject::WrongNonce);
    }
    if approval.args_hash != decision.args_hash {
        return Err(Reject::WrongArgs);
    }
    entitled(approval, &decision.approver, standing)?;
    let earlier = approval.vote_of(&decision.approver).map(|v| v.signed.decision.verdict);
    if earlier == Some(decision.verdict) {
        return Err(Reject::AlreadySo);
    }
    // While it is open, who said yes may still say no; a no has closed it for everybody.
    open(draft, at)?;
    count(draft, at, signed);
    draft.firm();
    draft.rouse();
    Ok(())
}

/// Only who was asked may answer, and only while they still belong to those who are asked.
pub(super) fn entitled(
    approval: &Approval,
    approver: &Subject,
    standing: Standing,
) -> Result<(), Reject> {
    if approval.eligible.contains(approver) && standing == Standing::Member {
        Ok(())
    } else {
        Err(Reject::NotEligible)
    }
}

fn count(draft: &mut Draft, at: usize, signed: &SignedDecision) {
    let now = draft.now;
    let decision = &signed.decision;
    vote(draft, at, signed);
    let Some(approval) = draft.next.calls[at].pending_approval_mut() else { return };
    let deadline = approval.deadline;
    match decision.verdict {
        Verdict::Approve => {
            if approve_if_enough(draft, at) {
                draft.drop_licence(decision.approval_id.clone());
            }
            draft.require(decision.approval_id.clone());
            draft.need_steady_clock = true;
        }
        Verdict::Deny => {
            let mut denial = approval.denial(DenialCode::Denied, now);
            denial.by = Some(decision.approver.clone());
            denial.detail.clone_from(&decision.reason);
            draft.refuse(at, denial);
        }
    }
    // At the deadline silence has denied; nobody has said yes, and nobody no.
    draft.not_after(deadline);
}

/// Keeps one approver's word.
pub(super) fn vote(draft: &mut Draft, at: usize, signed: &SignedDecision) {
    let (now, decision) = (draft.now, &signed.decision);
    draft.note(Fact::Voted {
        approval: decision.approval_id.clone(),
        by: decision.approver.clone(),
        verdict: decision.verdict,
        channel: decision.channel,
    });
    if let Some(approval) = draft.next.calls[at].pending_approval_mut() {
        approval.votes.push(Vote { at: now, signed: signed.clone() });
    }
}

/// Approves a request that has votes enough, and says whether it has.
pub(super) fn approve_if_enough(draft: &mut Draft, at: usize) -> bool {
    let (now, cap) = (draft.now, draft.next.hard_cap);
    let Some(approval) = draft.next.calls[at].pending_approval_mut() else { return false };
    let enough = usize::from(approval.need.max(1)) <= approval.approvals();
    if enough {
        let use_by = now.plus(USE_BY_MS).min(cap);
        approval.state = State::Approved { at: now, use_by };
        let approval = approval.id.clone();
        draft.note(Fact::Approved { approval, use_by });
    }
    enough
}

pub(super) fn licence_gone(draft: &mut Draft, id: &ApprovalId) -> Result<(), Reject> {
    void(draft, id, DenialCode::LicenceGone)
}

pub(super) fn policy_changed(draft: &mut Draft, id: &ApprovalId) -> Result<(), Reject> {
    void(draft, id, DenialCode::Withdrawn)
}

/// Refuses a request, or an approval that was not used yet.
fn void(draft: &mut Draft, id: &ApprovalId, code: DenialCode) -> Result<(), Reject> {
    let at = place(draft, id)?;
    let now = draft.now;
    if matches!(draft.next.phase, Phase::Ended(_)) {
        return Err(Reject::Terminal);
    }
    let approval = draft.next.calls[at].pending_approval_mut().ok_or(Reject::AlreadyStarted)?;
    let denial = match (&approval.state, code) {
        (State::Refused(denial), _) => return Err(why_closed(denial)),
        // An approved request has no licence any more: that it is gone says nothing.
        (State::Approved { .. }, DenialCode::LicenceGone) => return Err(Reject::AlreadyDecided),
        (State::Approved { .. } | State::Requested(_), code) => approval.denial(code, now),
    };
    draft.refuse(at, denial);
    draft.firm();
    draft.rouse();
    Ok(())
}
