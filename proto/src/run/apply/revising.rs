//! How approvers change an open request: a later deadline, or other arguments.

use crate::approval::{Approval, Delivery, Pending, Replaced, State};
use crate::call::{Call, args_hash, fingerprint};
use crate::decision::{Decision, KeyRing, SignedDecision, SignedExtension, Verdict};
use crate::ids::ApprovalId;
use crate::job::Payload;
use crate::journal::Fact;
use crate::run::apply::approvals::{approve_if_enough, entitled, open, place, vote};
use crate::run::apply::{Draft, asking};
use crate::run::event::Standing;
use crate::run::{Edit, Effect, Reject};

/// Moves the deadline later, never past what the run's cap allows.
pub(super) fn extend(
    draft: &mut Draft,
    signed: &SignedExtension,
    standing: Standing,
    keys: &KeyRing,
) -> Result<(), Reject> {
    let extension = &signed.extension;
    let at = place(draft, &extension.approval_id)?;
    let approval = draft.next.calls[at].approval().ok_or(Reject::UnknownApproval)?;
    keys.verify_extension(signed).map_err(Reject::Forged)?;
    if approval.nonce != extension.nonce {
        return Err(Reject::WrongNonce);
    }
    if approval.args_hash != extension.args_hash {
        return Err(Reject::WrongArgs);
    }
    entitled(approval, &extension.approver, standing)?;
    let (now, latest) = (draft.now, asking::latest(&draft.next));
    let approval = open(draft, at)?;
    let (before, deadline) = (approval.deadline, extension.until.min(latest));
    if deadline <= before {
        return Err(Reject::NotLater { at: before });
    }
    approval.deadline = deadline;
    approval.revise(now);
    let id = approval.id.clone();
    draft.note(Fact::Extended { approval: id.clone(), by: extension.approver.clone(), deadline });
    while_open(draft, id.clone(), before);
    draft.set_licence(id.clone(), deadline);
    draft.order(Effect::PublishRequest(id));
    Ok(())
}

/// The conditions of everything that keeps a request alive or grants it: at the commit it must
/// still be open, by its licence and by a clock that is right.
fn while_open(draft: &mut Draft, licence: ApprovalId, deadline: crate::time::Ms) {
    draft.require(licence);
    draft.not_after(deadline);
    draft.need_steady_clock = true;
    draft.firm();
}

/// Approves other arguments than were asked about: a new request takes the place of the old one,
/// with this vote, the same deadline and nobody else's word.
pub(super) fn decide_edited(
    draft: &mut Draft,
    signed: &SignedDecision,
    standing: Standing,
    keys: &KeyRing,
    edit: &Edit,
) -> Result<(), Reject> {
    let decision = &signed.decision;
    if is_already_so(draft, decision) {
        return Err(Reject::AlreadySo);
    }
    let at = place(draft, &decision.approval_id)?;
    let call = &draft.next.calls[at];
    let approval = call.approval().ok_or(Reject::UnknownApproval)?;
    keys.verify(signed).map_err(Reject::Forged)?;
    if approval.nonce != decision.nonce {
        return Err(Reject::WrongNonce);
    }
    check_args(draft, call, approval, decision, edit)?;
    entitled(approval, &decision.approver, standing)?;
    let old = Replaced { id: approval.id.clone(), nonce: approval.nonce };
    let deadline = open(draft, at)?.deadline;
    replace(draft, at, edit, old.clone());
    let id = draft.next.calls[at].approval().ok_or(Reject::UnknownApproval)?.id.clone();
    draft.note(Fact::Edited {
        approval: old.id.clone(),
        becomes: id.clone(),
        by: decision.approver.clone(),
    });
    vote(draft, at, signed);
    while_open(draft, old.id.clone(), deadline);
    draft.drop_licence(old.id);
    if !approve_if_enough(draft, at) {
        draft.set_licence(id.clone(), deadline);
        draft.order(Effect::PublishRequest(id));
    }
    draft.rouse();
    Ok(())
}

/// The same edit again: its reply was lost.
fn is_already_so(draft: &Draft, decision: &Decision) -> bool {
    let call = draft.next.call(decision.approval_id.call());
    call.and_then(Call::approval).is_some_and(|approval| {
        let vote = approval.vote_of(&decision.approver);
        vote.is_some_and(|vote| vote.signed.decision == *decision)
    })
}

/// The vote must be a yes to exactly the edited call, and the edit must change something.
fn check_args(
    draft: &Draft,
    call: &Call,
    approval: &Approval,
    decision: &Decision,
    edit: &Edit,
) -> Result<(), Reject> {
    let changes = edit.args_hash != approval.args_hash;
    let yes = decision.verdict == Verdict::Approve && decision.args_hash == edit.args_hash;
    if !changes || !yes {
        return Err(Reject::WrongArgs);
    }
    if let Payload::Inline(args) = &edit.args {
        let hash = args_hash(&draft.next.id, call.seq, &call.tool, args);
        let print = fingerprint(&call.tool, args);
        if hash.as_ref() != Ok(&edit.args_hash) || print.as_ref() != Ok(&edit.fingerprint) {
            return Err(Reject::ArgsMismatch);
        }
    }
    Ok(())
}

fn replace(draft: &mut Draft, at: usize, edit: &Edit, old: Replaced) {
    let (now, run) = (draft.now, draft.next.id.clone());
    let call = &mut draft.next.calls[at];
    call.args = edit.args.clone();
    call.args_hash = edit.args_hash;
    call.fingerprint = edit.fingerprint;
    let seq = call.seq;
    let Some(approval) = call.pending_approval_mut() else { return };
    approval.id = ApprovalId::of(&run, seq, old.id.number().saturating_add(1));
    approval.rev = 1;
    approval.nonce = edit.nonce;
    approval.args_hash = edit.args_hash;
    approval.shown = false;
    approval.replaces = Some(old);
    approval.votes.clear();
    approval.state = State::Requested(Delivery::Unsent(Pending::first(now)));
}
