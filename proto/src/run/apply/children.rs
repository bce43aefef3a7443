//! How a call becomes a child run, and how the child's end comes back.

use crate::approval::Pending;
use crate::call::{Progress, status_of_child};
use crate::ids::{ClaimId, RunId};
use crate::job::{CHILDREN_MAX, DEPTH_MAX, Job, Payload};
use crate::journal::Fact;
use crate::run::apply::{Draft, calls};
use crate::run::{CHILD_CHECK_MS, Effect, Outcome, Reject, Start};

pub(super) fn spawn(
    draft: &mut Draft,
    claim: ClaimId,
    seq: u32,
    start: &Start,
    child: &RunId,
    job: &Job,
) -> Result<(), Reject> {
    if DEPTH_MAX <= draft.next.job.depth() {
        return Err(Reject::TooDeep { max: DEPTH_MAX });
    }
    let children = draft.next.calls.iter().filter(|call| match &call.progress {
        Progress::Spawned { .. } => true,
        Progress::Planned | Progress::Started { .. } | Progress::Finished { .. } => false,
    });
    if CHILDREN_MAX <= children.count() {
        return Err(Reject::TooManyChildren { max: CHILDREN_MAX });
    }
    calls::authorise(draft, claim, seq, start)?;
    let now = draft.now;
    let call = draft.call_mut(seq)?;
    call.tries = call.tries.saturating_add(1);
    call.progress = Progress::Spawned {
        child: child.clone(),
        job: Box::new(job.clone()),
        creating: Some(Pending::first(now)),
        check_at: now.plus(CHILD_CHECK_MS),
    };
    draft.note(Fact::Spawned { call: seq, child: child.clone() });
    draft.order(Effect::CreateChild(seq));
    draft.next.attempts = 0;
    draft.firm();
    Ok(())
}

pub(super) fn created(draft: &mut Draft, seq: u32) -> Result<(), Reject> {
    match &mut draft.call_mut(seq)?.progress {
        Progress::Spawned { creating, .. } if creating.is_some() => {
            *creating = None;
            Ok(())
        }
        Progress::Spawned { .. }
        | Progress::Planned
        | Progress::Started { .. }
        | Progress::Finished { .. } => Err(Reject::NothingDue),
    }
}

pub(super) fn done(
    draft: &mut Draft,
    seq: u32,
    child: &RunId,
    outcome: Outcome,
    result: &Payload,
) -> Result<(), Reject> {
    if !draft.next.is_live() {
        return Err(Reject::Terminal);
    }
    let at = draft.now;
    let call = draft.call_mut(seq)?;
    match &call.progress {
        Progress::Spawned { child: own, .. } if own == child => {}
        Progress::Spawned { .. } => return Err(Reject::NotThatChild),
        Progress::Finished { .. } => return Err(Reject::AlreadySo),
        Progress::Planned | Progress::Started { .. } => return Err(Reject::NotThatChild),
    }
    let status = status_of_child(outcome);
    call.progress = Progress::Finished { at, status, result: result.clone() };
    let tool = call.tool.clone();
    draft.note(Fact::Finished { call: seq, tool, status });
    draft.firm();
    draft.rouse();
    Ok(())
}
