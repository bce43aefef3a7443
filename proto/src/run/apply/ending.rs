//! How a run ends, and how everybody who must know is told.

use crate::call::Call;
use crate::ids::ClaimId;
use crate::job::Payload;
use crate::journal::Fact;
use crate::run::apply::Draft;
use crate::run::{Ended, Outcome, Phase, Reason, Reject};

pub(super) fn done(
    draft: &mut Draft,
    claim: ClaimId,
    output: Option<&Payload>,
) -> Result<(), Reject> {
    draft.held(claim)?;
    if !draft.next.calls.iter().all(Call::is_final) {
        return Err(Reject::CallsOpen);
    }
    let (outcome, reason) = if draft.next.has_denials() {
        (Outcome::CompletedWithDenials, "denied")
    } else {
        (Outcome::Succeeded, "done")
    };
    draft.end(outcome, Reason::of(reason), output.cloned());
    Ok(())
}

pub(super) fn fail(draft: &mut Draft, claim: ClaimId, reason: &Reason) -> Result<(), Reject> {
    draft.held(claim)?;
    if draft.next.calls.iter().any(Call::is_started) {
        return Err(Reject::ToolRunning);
    }
    draft.end(Outcome::Failed, reason.clone(), None);
    Ok(())
}

pub(super) fn cancel(draft: &mut Draft, by: &str, reason: &Reason) -> Result<(), Reject> {
    if !draft.next.is_live() {
        return Err(Reject::Terminal);
    }
    draft.note(Fact::CancelAsked { by: by.chars().take(Reason::DETAIL_CHARS_MAX).collect() });
    draft.end(Outcome::Cancelled, reason.clone(), None);
    Ok(())
}

fn ended_mut(draft: &mut Draft) -> Result<&mut Ended, Reject> {
    match &mut draft.next.phase {
        Phase::Ended(ended) => Ok(ended),
        Phase::Queued { .. } | Phase::Running { .. } | Phase::Waiting | Phase::Backoff { .. } => {
            Err(Reject::NothingDue)
        }
    }
}

pub(super) fn parent_notified(draft: &mut Draft) -> Result<(), Reject> {
    ended_mut(draft)?.notify.take().map(|_| ()).ok_or(Reject::NothingDue)
}

pub(super) fn child_ended(draft: &mut Draft, seq: u32) -> Result<(), Reject> {
    let ended = ended_mut(draft)?;
    let before = ended.cancelling.len();
    ended.cancelling.retain(|(call, _)| *call != seq);
    if ended.cancelling.len() < before { Ok(()) } else { Err(Reject::NothingDue) }
}
