//! What has time already decided about this run, whether or not anybody has noticed?
//!
//! Invariant: readers and events see the same. A deadline that has passed is a denial on every
//! screen and for every event, also while no process runs that could commit it.

use crate::run::apply::Draft;
use crate::run::{Outcome, Phase, Reason, Run};
use crate::time::Ms;

/// The run as time has decided it by `now`.
#[must_use]
pub fn effective(run: &Run, now: Ms) -> Run {
    let mut draft = Draft::of(run.clone(), now);
    settle_time(&mut draft);
    draft.next
}

/// Time comes first: whatever the event, what has expired has expired.
pub(super) fn settle_time(draft: &mut Draft) {
    let now = draft.now;
    if !draft.next.is_live() {
        return;
    }
    for seq in 0..draft.next.calls.len() {
        let expired = draft.next.calls[seq].pending_approval_mut().and_then(|a| a.at(now));
        if let Some(denial) = expired {
            draft.refuse(seq, denial);
        }
    }
    if draft.next.hard_cap <= now {
        let waited = draft.next.hard_cap.since(draft.next.begun.unwrap_or(draft.next.created));
        let detail = format!("the run's hard cap passed after {} s", waited / 1_000);
        draft.end(Outcome::TimedOut, Reason::because("hard_cap", &detail), None);
    } else if matches!(draft.next.phase, Phase::Queued { .. })
        && draft.next.begun.is_none()
        && draft.next.job.start_by <= now
    {
        let detail = "no worker began it before its start_by time";
        draft.end(Outcome::Failed, Reason::because("expired_in_queue", detail), None);
    } else {
        draft.end_if_refused();
        draft.rouse();
    }
}
