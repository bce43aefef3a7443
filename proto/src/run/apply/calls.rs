//! How calls are planned, refused, started and finished.

use crate::approval::{Approval, State};
use crate::call::{CALLS_MAX, Call, Gate, Progress, Status, args_hash, fingerprint};
use crate::denial::{Denial, DenialCode};
use crate::ids::ClaimId;
use crate::job::Payload;
use crate::journal::Fact;
use crate::policy::Verdict;
use crate::run::apply::{Draft, asking};
use crate::run::{Ask, Gating, Phase, PlannedCall, Reject, Start};

pub(super) fn planned(
    draft: &mut Draft,
    claim: ClaimId,
    planned: &[PlannedCall],
    definition: Option<&Payload>,
) -> Result<(), Reject> {
    draft.held(claim)?;
    if !draft.next.turn_calls().all(Call::is_final) {
        return Err(Reject::CallsOpen);
    }
    if CALLS_MAX < draft.next.calls.len() + planned.len() {
        return Err(Reject::TooManyCalls { max: CALLS_MAX });
    }
    draft.next.turn += 1;
    draft.next.attempts = 0;
    if draft.next.definition.is_none() {
        draft.next.definition = definition.cloned();
    }
    let count = u32::try_from(planned.len()).expect("at most CALLS_MAX");
    draft.note(Fact::Planned { turn: draft.next.turn, calls: count });
    planned.iter().try_for_each(|call| plan_one(draft, call))
}

fn plan_one(draft: &mut Draft, planned: &PlannedCall) -> Result<(), Reject> {
    let seq = u32::try_from(draft.next.calls.len()).expect("at most CALLS_MAX");
    if let Payload::Inline(args) = &planned.args {
        let hash = args_hash(&draft.next.id, seq, &planned.tool, args);
        let print = fingerprint(&planned.tool, args);
        if hash.as_ref() != Ok(&planned.args_hash) || print.as_ref() != Ok(&planned.fingerprint) {
            return Err(Reject::ArgsMismatch);
        }
    }
    draft.next.calls.push(Call {
        seq,
        turn: draft.next.turn,
        tool: planned.tool.clone(),
        args: planned.args.clone(),
        args_hash: planned.args_hash,
        fingerprint: planned.fingerprint,
        traits: planned.traits,
        gate: Gate::Allowed,
        progress: Progress::Planned,
        tries: 0,
    });
    let at = draft.next.calls.len() - 1;
    match &planned.gating {
        Gating::Deny { code, detail } => {
            let denial = Denial { detail: detail.clone(), ..Denial::of(*code, draft.now) };
            draft.refuse(at, denial);
        }
        Gating::Ask(ask) => asking::ask(draft, at, ask),
        Gating::Allow => {}
    }
    Ok(())
}

pub(super) fn need_approval(
    draft: &mut Draft,
    claim: ClaimId,
    seq: u32,
    ask: &Ask,
) -> Result<(), Reject> {
    draft.held(claim)?;
    let call = draft.call_mut(seq)?;
    match (&call.progress, &call.gate) {
        (Progress::Planned, Gate::Allowed) => {}
        (Progress::Planned, Gate::Asked(_)) => return Err(Reject::AlreadySo),
        (Progress::Planned, Gate::Refused(denial)) => return Err(Reject::GateClosed(denial.code)),
        (Progress::Started { .. } | Progress::Spawned { .. } | Progress::Finished { .. }, _) => {
            return Err(Reject::AlreadyStarted);
        }
    }
    asking::ask(draft, usize::try_from(seq).expect("found above"), ask);
    Ok(())
}

pub(super) fn gate_closed(
    draft: &mut Draft,
    claim: ClaimId,
    seq: u32,
    code: DenialCode,
    detail: Option<&str>,
) -> Result<(), Reject> {
    draft.held(claim)?;
    let call = draft.call_mut(seq)?;
    if !matches!(call.progress, Progress::Planned) {
        return Err(Reject::AlreadyStarted);
    }
    if let Some(denial) = call.refusal() {
        return Err(Reject::GateClosed(denial.code));
    }
    let denial = Denial { detail: detail.map(ToOwned::to_owned), ..Denial::of(code, draft.now) };
    draft.refuse(usize::try_from(seq).expect("found above"), denial);
    draft.firm();
    Ok(())
}

/// Everything that must hold before a call may begin, in the order it is told.
pub(super) fn authorise(
    draft: &mut Draft,
    claim: ClaimId,
    seq: u32,
    start: &Start,
) -> Result<(), Reject> {
    draft.held(claim)?;
    let now = draft.now;
    if let Phase::Running { lease_until, step_deadline, .. } = draft.next.phase {
        if step_deadline <= now {
            return Err(Reject::StepOver);
        }
        if lease_until <= now {
            return Err(Reject::LostClaim);
        }
        draft.not_after(lease_until.min(step_deadline));
    }
    if let Some((_, denial)) = draft.next.fatal_refusal() {
        return Err(Reject::GateClosed(denial.code));
    }
    let call = draft.call_mut(seq)?;
    if !matches!(call.progress, Progress::Planned) {
        return Err(Reject::AlreadyStarted);
    }
    if call.args_hash != start.args_hash {
        return Err(Reject::ArgsMismatch);
    }
    if let Verdict::Deny { code, .. } = &start.verdict {
        return Err(Reject::GateClosed(*code));
    }
    let may_repeat = call.traits.effect.may_repeat();
    let conditions = match (&call.gate, &start.verdict) {
        (Gate::Refused(denial), _) => return Err(Reject::GateClosed(denial.code)),
        (Gate::Asked(approval), _) => Some(approved(approval, call, start)?),
        (Gate::Allowed, Verdict::Allow) => None,
        (Gate::Allowed, Verdict::Ask(_) | Verdict::Deny { .. }) => {
            return Err(Reject::NeedsApproval);
        }
    };
    if let Some((use_by, policy_epoch)) = conditions {
        draft.not_after(use_by);
        draft.policy_epoch = Some(policy_epoch);
        draft.firm();
    } else if !may_repeat {
        draft.firm();
    }
    // Nothing starts on a clock that is not known to be right.
    draft.need_steady_clock = true;
    Ok(())
}

/// Enough genuine votes for exactly this call, counted again from their signatures.
fn approved(
    approval: &Approval,
    call: &Call,
    start: &Start,
) -> Result<(crate::time::Ms, u64), Reject> {
    let use_by = match &approval.state {
        State::Approved { use_by, .. } => *use_by,
        State::Requested(_) => return Err(Reject::NotApproved),
        State::Refused(denial) => return Err(Reject::GateClosed(denial.code)),
    };
    let mut voters = std::collections::BTreeSet::new();
    for vote in &approval.votes {
        let decision = &vote.signed.decision;
        if decision.verdict != crate::decision::Verdict::Approve {
            continue;
        }
        start.keys.verify(&vote.signed).map_err(Reject::VoteForged)?;
        let here = approval.is_addressed_by(&decision.approval_id, &decision.nonce);
        if !here || decision.args_hash != call.args_hash {
            return Err(Reject::WrongArgs);
        }
        if !approval.eligible.contains(&decision.approver) {
            return Err(Reject::NotEligible);
        }
        voters.insert(&decision.approver);
    }
    if voters.len() < usize::from(approval.need.max(1)) {
        return Err(Reject::NotApproved);
    }
    Ok((use_by, approval.policy_epoch))
}

pub(super) fn start(
    draft: &mut Draft,
    claim: ClaimId,
    seq: u32,
    start: &Start,
) -> Result<(), Reject> {
    authorise(draft, claim, seq, start)?;
    let at = draft.now;
    let call = draft.call_mut(seq)?;
    call.progress = Progress::Started { at };
    call.tries = call.tries.saturating_add(1);
    let tool = call.tool.clone();
    draft.note(Fact::Started { call: seq, tool });
    Ok(())
}

pub(super) fn finish(
    draft: &mut Draft,
    claim: ClaimId,
    seq: u32,
    status: Status,
    result: &Payload,
) -> Result<(), Reject> {
    draft.held(claim)?;
    let at = draft.now;
    let call = draft.call_mut(seq)?;
    if !call.is_started() {
        return Err(Reject::NotStarted);
    }
    call.progress = Progress::Finished { at, status, result: result.clone() };
    let tool = call.tool.clone();
    draft.next.attempts = 0;
    draft.note(Fact::Finished { call: seq, tool, status });
    draft.firm();
    Ok(())
}
