//! How a call becomes a child run, and how the child's end comes back.

use crate::approval::Pending;
use crate::call::{Progress, status_of_child};
use crate::ids::{ClaimId, JobKey, RunId};
use crate::job::{CHILDREN_MAX, DEPTH_MAX, Job, Payload};
use crate::journal::Fact;
use crate::run::apply::{Draft, calls};
use crate::run::{CHILD_CHECK_MS, Effect, Outcome, Reject, Run, Start};

pub(super) fn spawn(
    draft: &mut Draft,
    claim: ClaimId,
    seq: u32,
    start: &Start,
    child: &RunId,
    job: &Job,
) -> Result<(), Reject> {
    calls::authorise(draft, claim, seq, start)?;
    if DEPTH_MAX <= draft.next.job.depth() {
        return Err(Reject::TooDeep { max: DEPTH_MAX });
    }
    if CHILDREN_MAX <= usize::from(draft.next.children) {
        return Err(Reject::TooManyChildren { max: CHILDREN_MAX });
    }
    if !descends(&draft.next, seq, job) {
        return Err(Reject::NotThatChild);
    }
    draft.next.children += 1;
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

/// Whether a job is this call's child: it inherits where it comes from, and only narrows.
fn descends(run: &Run, seq: u32, job: &Job) -> bool {
    let of_this_call = job.parent.as_ref().is_some_and(|parent| {
        parent.run == run.id
            && parent.call == seq
            && parent.depth == run.job.depth() + 1
            && parent.hard_cap <= run.hard_cap
    });
    of_this_call
        && job.key == JobKey::child(&run.id, seq)
        && job.tenant == run.job.tenant
        && job.origin == run.job.origin
        && job.attendance == run.job.attendance.narrowed(&job.attendance)
}

pub(super) fn created(draft: &mut Draft, seq: u32) -> Result<(), Reject> {
    if !draft.next.is_live() {
        return Err(Reject::Terminal);
    }
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
