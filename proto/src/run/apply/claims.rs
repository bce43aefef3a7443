//! How a run is accepted, claimed, held, parked and let go.

use crate::call::Call;
use crate::ids::{ClaimId, RunId};
use crate::job::{CAP_MS_CEILING, Job};
use crate::journal::Fact;
use crate::run::apply::Draft;
use crate::run::{
    ATTEMPTS_MAX, CHILD_RESERVE_MS, Change, LEASE_MS, Outcome, Parentage, Phase, Reason, Reject,
    Run,
};
use crate::time::Ms;
use crate::topology::Lane;

pub(super) fn accept(id: &RunId, job: &Job, now: Ms) -> Change {
    let cap_ms = job.limits.cap_ms.clamp(1, CAP_MS_CEILING);
    let latest = job.start_by.plus(cap_ms);
    let run = Run {
        id: id.clone(),
        created: now,
        begun: None,
        hard_cap: under_parent(job, latest),
        phase: Phase::Waiting,
        attempts: 0,
        turn: 0,
        step_left_ms: job.limits.step_ms,
        children: 0,
        definition: None,
        calls: Vec::new(),
        job: job.clone(),
    };
    let mut draft = Draft::of(run.clone(), now);
    draft.firm();
    draft.note(Fact::Accepted { agent: job.agent.clone(), origin: job.origin.kind().to_owned() });
    if job.start_by <= now || run.hard_cap <= now {
        // A tombstone: the same envelope again finds it and is a duplicate.
        let detail = "its start_by time had passed when it was accepted";
        draft.end(Outcome::Failed, Reason::because("expired_in_queue", detail), None);
    } else {
        draft.queue(Lane::Lo);
        draft.not_after(job.start_by);
    }
    draft.finish(&run)
}

pub(super) fn accept_again(run: &Run, job: &Job) -> Reject {
    if run.job.input_hash == job.input_hash { Reject::Duplicate } else { Reject::KeyReused }
}

fn under_parent(job: &Job, cap: Ms) -> Ms {
    job.parent.as_ref().map_or(cap, |parent| cap.min(parent.hard_cap.minus(CHILD_RESERVE_MS)))
}

pub(super) fn claim(draft: &mut Draft, claim: ClaimId, parentage: Parentage) -> Result<(), Reject> {
    match &draft.next.phase {
        Phase::Queued { .. } => {}
        Phase::Running { .. } => return Err(Reject::Busy),
        Phase::Waiting | Phase::Backoff { .. } => return Err(Reject::Waiting),
        Phase::Ended(_) => return Err(Reject::Terminal),
    }
    match (&draft.next.job.parent, parentage) {
        (None, _) | (Some(_), Parentage::Live) => {}
        (Some(_), Parentage::None) => return Err(Reject::ParentUnknown),
        (Some(_), Parentage::Ended) => {
            draft.end(Outcome::Cancelled, Reason::of("parent_ended"), None);
            return Ok(());
        }
    }
    if ATTEMPTS_MAX <= draft.next.attempts {
        let detail = format!("{ATTEMPTS_MAX} workers died in the same place");
        draft.end(Outcome::Failed, Reason::because("poison", &detail), None);
        return Ok(());
    }
    let now = draft.now;
    if draft.next.begun.is_none() {
        draft.not_after(draft.next.job.start_by);
        draft.next.begun = Some(now);
        let cap_ms = draft.next.job.limits.cap_ms.clamp(1, CAP_MS_CEILING);
        // Only ever earlier: what was set when the run was made already heeds its parent.
        draft.next.hard_cap = draft.next.hard_cap.min(now.plus(cap_ms));
    }
    draft.next.attempts += 1;
    let step_deadline = now.plus(draft.next.step_left_ms.max(0)).min(draft.next.hard_cap);
    let lease_until = now.plus(LEASE_MS).min(step_deadline);
    draft.next.phase = Phase::Running { claim, lease_until, step_deadline };
    draft.note(Fact::Claimed { attempt: draft.next.attempts });
    Ok(())
}

pub(super) fn renew(draft: &mut Draft, claim: ClaimId) -> Result<(), Reject> {
    draft.held(claim)?;
    let now = draft.now;
    let mut over = None;
    if let Phase::Running { lease_until, step_deadline, .. } = &mut draft.next.phase {
        if *step_deadline <= now {
            return Err(Reject::StepOver);
        }
        over = Some(*step_deadline);
        *lease_until = now.plus(LEASE_MS).min(*step_deadline);
    }
    over.into_iter().for_each(|at| draft.not_after(at));
    Ok(())
}

/// What is left of the step's time when nobody works on it any more.
fn stop_step_clock(draft: &mut Draft) {
    if let Phase::Running { step_deadline, .. } = draft.next.phase {
        draft.next.step_left_ms = step_deadline.since(draft.now).max(0);
    }
}

pub(super) fn park(draft: &mut Draft, claim: ClaimId) -> Result<(), Reject> {
    draft.held(claim)?;
    if draft.next.calls.iter().any(Call::is_started) {
        return Err(Reject::ToolRunning);
    }
    // What is neither final nor may start nor runs, waits: there is something to wait for.
    if draft.next.has_work() {
        return Err(Reject::Runnable);
    }
    let waits = draft.next.turn_calls().filter(|call| call.is_waiting()).count();
    stop_step_clock(draft);
    draft.next.phase = Phase::Waiting;
    draft.next.attempts = 0;
    draft.note(Fact::Parked { waits: u32::try_from(waits).expect("at most CALLS_MAX") });
    Ok(())
}

pub(super) fn release(
    draft: &mut Draft,
    claim: ClaimId,
    backoff_ms: Option<i64>,
    why: &str,
) -> Result<(), Reject> {
    draft.held(claim)?;
    if draft.next.calls.iter().any(Call::is_started) {
        return Err(Reject::ToolRunning);
    }
    stop_step_clock(draft);
    draft.next.attempts = draft.next.attempts.saturating_sub(1);
    draft.note(Fact::Released { why: why.chars().take(Reason::DETAIL_CHARS_MAX).collect() });
    match backoff_ms {
        Some(wait) => {
            let until = draft.now.plus(wait).min(draft.next.hard_cap);
            draft.next.phase = Phase::Backoff { until };
        }
        None => draft.queue(Lane::Hi),
    }
    Ok(())
}
