//! What time alone does: rings, lapses, retries. Expiry itself is settled before any event.

use crate::approval::{Delivery, Pending, State};
use crate::call::{Call, OnUnknown, Progress, Status, TRIES_MAX};
use crate::job::Payload;
use crate::journal::Fact;
use crate::run::apply::{Draft, asking};
use crate::run::{
    CHILD_CHECK_MS, Effect, Outcome, Phase, RING_MS_FIRST, RING_MS_MAX, Reason, Reject, Run,
    WAKE_RETRY_MS_FIRST, WAKE_RETRY_MS_MAX,
};
use crate::time::Ms;
use crate::topology::Lane;

pub(super) fn tick(draft: &mut Draft, before: &Run) -> Result<(), Reject> {
    let now = draft.now;
    let mut ring = None;
    match &mut draft.next.phase {
        Phase::Queued { lane, rings, ring_at, .. } if *ring_at <= now => {
            *rings = rings.saturating_add(1);
            let wait = RING_MS_FIRST.saturating_mul(4_i64.saturating_pow(u32::from(*rings)));
            *ring_at = now.plus(wait.min(RING_MS_MAX));
            ring = Some(*lane);
        }
        Phase::Running { lease_until, .. } if *lease_until <= now => lapse(draft),
        Phase::Backoff { until } if *until <= now => draft.queue(Lane::Hi),
        Phase::Ended(_) => repeat_last_words(draft),
        Phase::Queued { .. } | Phase::Running { .. } | Phase::Waiting | Phase::Backoff { .. } => {}
    }
    ring.into_iter().for_each(|lane| draft.order(Effect::Wake(lane)));
    if draft.next.is_live() {
        asking::escalate_due(draft);
        repeat_calls(draft);
    }
    if draft.next == *before { Err(Reject::NothingDue) } else { Ok(()) }
}

/// The worker is gone, or wedged past its step: what it had started decides what follows.
fn lapse(draft: &mut Draft) {
    draft.note(Fact::Lapsed);
    let lost = |call: &&Call| {
        call.is_started() && !may_retry(call) && call.traits.on_unknown == OnUnknown::Fail
    };
    // First of all: a run that ends here must not show its other started calls as never begun.
    if let Some(seq) = draft.next.calls.iter().find(lost).map(|call| call.seq) {
        let detail = format!("call {seq} was started; nobody knows whether it took effect");
        draft.end(Outcome::Interrupted, Reason::because("outcome_unknown", &detail), None);
        return;
    }
    for at in 0..draft.next.calls.len() {
        let call = &draft.next.calls[at];
        match (call.is_started(), may_retry(call)) {
            (true, true) => retry(draft, at),
            (true, false) => unknown(draft, at),
            (false, _) => {}
        }
    }
    draft.next.step_left_ms = draft.next.job.limits.step_ms;
    draft.queue(Lane::Hi);
}

/// Whoever held the claim is gone for certain, so its lease is not waited for.
pub(super) fn workers_gone(draft: &mut Draft) -> Result<(), Reject> {
    match draft.next.phase {
        Phase::Running { .. } => {
            lapse(draft);
            Ok(())
        }
        Phase::Queued { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => {
            Err(Reject::NothingDue)
        }
    }
}

fn may_retry(call: &Call) -> bool {
    call.traits.effect.may_repeat() && call.tries < TRIES_MAX
}

fn retry(draft: &mut Draft, at: usize) {
    let call = &mut draft.next.calls[at];
    call.progress = Progress::Planned;
    let fact = Fact::Retried { call: call.seq, tries: call.tries };
    draft.note(fact);
}

fn unknown(draft: &mut Draft, at: usize) {
    let now = draft.now;
    let call = &mut draft.next.calls[at];
    let result = Payload::Inline(serde_json::json!({ "error": "outcome_unknown" }));
    call.progress = Progress::Finished { at: now, status: Status::Unknown, result };
    let fact = Fact::Finished { call: call.seq, tool: call.tool.clone(), status: Status::Unknown };
    draft.note(fact);
}

/// Requests that may not have reached a queue; children that may not exist, or whose word may be
/// lost.
fn repeat_calls(draft: &mut Draft) {
    let now = draft.now;
    let mut effects = Vec::new();
    for call in &mut draft.next.calls {
        repeat_request(call, now, &mut effects);
        if let Progress::Spawned { creating, check_at, .. } = &mut call.progress {
            match creating {
                Some(pending) if pending.again_at <= now => {
                    *pending = pending.next(now);
                    effects.push(Effect::CreateChild(call.seq));
                }
                Some(_) | None => {}
            }
            if *check_at <= now {
                *check_at = now.plus(CHILD_CHECK_MS);
                effects.push(Effect::CheckChild(call.seq));
            }
        }
    }
    effects.into_iter().for_each(|effect| draft.order(effect));
}

fn repeat_request(call: &mut Call, now: Ms, effects: &mut Vec<Effect>) {
    let Some(approval) = call.pending_approval_mut() else { return };
    if let State::Requested(Delivery::Unsent(pending)) = &mut approval.state
        && pending.again_at <= now
    {
        *pending = pending.next(now);
        effects.push(Effect::PublishRequest(approval.id.clone()));
    }
}

fn repeat_last_words(draft: &mut Draft) {
    let now = draft.now;
    let mut effects = Vec::new();
    let again = |pending: &mut Pending| {
        let due = pending.again_at <= now;
        if due {
            *pending = pending.next(now);
        }
        due
    };
    if let Phase::Ended(ended) = &mut draft.next.phase {
        if ended.notify.as_mut().is_some_and(again) {
            effects.push(Effect::NotifyParent);
        }
        for (seq, pending) in &mut ended.cancelling {
            if again(pending) {
                effects.push(Effect::CancelChild(*seq));
            }
        }
    }
    effects.into_iter().for_each(|effect| draft.order(effect));
}

pub(super) fn wake_failed(draft: &mut Draft) -> Result<(), Reject> {
    let now = draft.now;
    match &mut draft.next.phase {
        Phase::Queued { rings, failed, ring_at, .. } => {
            let wait = WAKE_RETRY_MS_FIRST.saturating_mul(1 << (*failed).min(8));
            *failed = failed.saturating_add(1);
            *rings = rings.saturating_sub(1);
            *ring_at = now.plus(wait.min(WAKE_RETRY_MS_MAX));
            Ok(())
        }
        Phase::Running { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => {
            Err(Reject::NothingDue)
        }
    }
}
