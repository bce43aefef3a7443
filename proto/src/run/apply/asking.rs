//! How a call is put to people, and to whom next.

use std::collections::BTreeSet;

use crate::approval::{Approval, CAP_RESERVE_MS, Delivery, Level, NOTICE_MS_MIN, Pending, State};
use crate::call::{Call, Gate};
use crate::denial::{Denial, DenialCode};
use crate::ids::ApprovalId;
use crate::journal::Fact;
use crate::policy::LEVELS_MAX;
use crate::run::apply::Draft;
use crate::run::{Ask, Effect, Run};
use crate::time::Ms;

/// A call that a person refused in this run is refused again; any other is asked about.
pub(super) fn ask(draft: &mut Draft, at: usize, ask: &Ask) {
    draft.firm();
    match denied_before(draft, at) {
        Some(denial) => draft.refuse(at, denial),
        None => request(draft, at, ask),
    }
}

/// The person's denial of the same tool with the same arguments, earlier in this run.
fn denied_before(draft: &Draft, at: usize) -> Option<Denial> {
    let (calls, same) = (&draft.next.calls, draft.next.calls[at].fingerprint);
    calls
        .iter()
        .filter(|call| call.fingerprint == same)
        .filter_map(Call::refusal)
        .find(|denial| denial.code == DenialCode::Denied)
        .map(|denial| Denial { at: draft.now, ..denial.clone() })
}

/// Asks people about a call, or denies it at once when that would be a wait for nobody.
fn request(draft: &mut Draft, at: usize, ask: &Ask) {
    let (now, call) = (draft.now, &draft.next.calls[at]);
    let approval = first(&draft.next, call, ask, now);
    let hopeless = hopeless(&approval, now);
    let (id, tool, pool) = (approval.id.clone(), call.tool.clone(), approval.pool.clone());
    let deadline = approval.deadline;
    let denial = hopeless.map(|code| approval.denial(code, now));
    draft.next.calls[at].gate = Gate::Asked(Box::new(approval));
    if let Some(denial) = denial {
        draft.refuse(at, denial);
        return;
    }
    draft.note(Fact::Asked { approval: id.clone(), tool, pool, deadline });
    draft.set_licence(id.clone(), deadline);
    draft.order(Effect::PublishRequest(id));
}

/// The latest that a request of this run may stay open.
pub(super) const fn latest(run: &Run) -> Ms {
    run.hard_cap.minus(CAP_RESERVE_MS)
}

/// The first request for a call, to the first level that has anybody in it.
fn first(run: &Run, call: &Call, ask: &Ask, now: Ms) -> Approval {
    let deadline = match run.job.limits.approval_ms {
        own if own <= 0 => latest(run),
        own => now.plus(own).min(latest(run)),
    };
    let levels = ask.terms.levels.iter().take(LEVELS_MAX).map(|level| Level {
        at: now.plus(level.after_ms),
        pool: level.pool.clone(),
        add: level.add.clone(),
        inbox: level.inbox,
    });
    let mut approval = Approval {
        id: ApprovalId::of(&run.id, call.seq, 1),
        rev: 1,
        nonce: ask.nonce,
        args_hash: call.args_hash,
        pool: ask.terms.pool.clone(),
        earlier_pools: Vec::new(),
        risk: ask.terms.risk,
        need: ask.terms.need.max(1),
        eligible: ask.terms.eligible.clone(),
        inbox: ask.terms.inbox,
        levels: levels.collect(),
        shown: false,
        replaces: None,
        policy_epoch: ask.policy_epoch,
        asked_at: now,
        deadline,
        votes: Vec::new(),
        state: State::Requested(Delivery::Unsent(Pending::first(now))),
    };
    while approval.eligible.is_empty() && approval.climb() {}
    approval
}

/// Why nobody, or too few, could ever answer.
fn hopeless(approval: &Approval, now: Ms) -> Option<DenialCode> {
    let later = approval.levels.iter().filter(|level| level.at < approval.deadline);
    let all: BTreeSet<_> =
        approval.eligible.iter().chain(later.flat_map(|level| &level.add)).collect();
    if approval.eligible.is_empty() {
        Some(DenialCode::NoApprover)
    } else if all.len() < usize::from(approval.need) {
        Some(DenialCode::QuorumUnreachable)
    } else if approval.deadline <= now.plus(NOTICE_MS_MIN) {
        Some(DenialCode::NoTime)
    } else {
        None
    }
}

/// Takes every request whose time has come to its next level.
pub(super) fn escalate_due(draft: &mut Draft) {
    let now = draft.now;
    for at in 0..draft.next.calls.len() {
        let due = |call: &mut Call| {
            let open = call.pending_approval_mut().filter(|approval| approval.is_open());
            open.and_then(|approval| approval.level_at()).is_some_and(|level_at| level_at <= now)
        };
        while due(&mut draft.next.calls[at]) {
            escalate(draft, at);
        }
    }
}

/// Asks the next level as well, if there is one: the same request in a new revision. Deadline and
/// quorum stay as they are.
pub(super) fn escalate(draft: &mut Draft, at: usize) -> bool {
    let now = draft.now;
    let Some(approval) = draft.next.calls[at].pending_approval_mut() else { return false };
    if !approval.climb() {
        return false;
    }
    approval.revise(now);
    let (id, pool) = (approval.id.clone(), approval.pool.clone());
    draft.note(Fact::Escalated { approval: id.clone(), pool });
    draft.order(Effect::PublishRequest(id));
    draft.firm();
    true
}
