//! Takes one step. Total: every event has a defined answer in every state, and `Err` changes
//! nothing.
//!
//! Time is settled before the event is looked at, so no event can see a deadline that has passed
//! as still open. The windows and keys in the returned change make that exact at the commit.

mod approvals;
mod asking;
mod calls;
mod children;
mod claims;
mod draft;
mod ending;
mod revising;
mod tick;

pub(super) use draft::Draft;

use crate::ids::ApprovalId;
use crate::run::effective::settle_time;
use crate::run::{Change, Durability, Event, Reject, Run};
use crate::time::Ms;

/// Applies one event to a run (or to none) as of the store's time `now`.
///
/// # Errors
/// The reason why the event changes nothing.
pub fn apply(run: Option<&Run>, event: &Event, now: Ms) -> Result<Change, Reject> {
    let Some(run) = run else {
        return if let Event::Accepted { id, job } = event {
            Ok(claims::accept(id, job, now))
        } else {
            Err(Reject::Unknown)
        };
    };
    let mut draft = Draft::of(run.clone(), now);
    settle_time(&mut draft);
    step(&mut draft, run, event)?;
    draft.end_if_refused();
    Ok(draft.finish(run))
}

fn step(draft: &mut Draft, before: &Run, event: &Event) -> Result<(), Reject> {
    match event {
        Event::Accepted { job, .. } => Err(claims::accept_again(&draft.next, job)),
        Event::Claim { claim, parentage } => claims::claim(draft, *claim, *parentage),
        Event::Renew { claim } => claims::renew(draft, *claim),
        Event::Park { claim } => claims::park(draft, *claim),
        Event::Release { claim, backoff_ms, why } => {
            claims::release(draft, *claim, *backoff_ms, why)
        }
        Event::Planned { claim, calls, definition } => {
            calls::planned(draft, *claim, calls, definition.as_ref())
        }
        Event::NeedApproval { claim, seq, ask } => calls::need_approval(draft, *claim, *seq, ask),
        Event::GateClosed { claim, seq, code, detail } => {
            calls::gate_closed(draft, *claim, *seq, *code, detail.as_deref())
        }
        Event::StartTool { claim, seq, start } => calls::start(draft, *claim, *seq, start),
        Event::FinishTool { claim, seq, status, result } => {
            calls::finish(draft, *claim, *seq, *status, result)
        }
        Event::SpawnChild { claim, seq, start, child, job } => {
            children::spawn(draft, *claim, *seq, start, child, job)
        }
        Event::ChildCreated { seq } => children::created(draft, *seq),
        Event::ChildDone { seq, child, outcome, result } => {
            children::done(draft, *seq, child, *outcome, result)
        }
        Event::Published { approval, rev } => approvals::published(draft, approval, *rev),
        Event::Unroutable { approval, rev } => approvals::unroutable(draft, approval, *rev),
        Event::Decide { signed, standing, keys } => {
            approvals::decide(draft, signed, *standing, keys)
        }
        Event::DecideEdited { signed, standing, keys, edit } => {
            revising::decide_edited(draft, signed, *standing, keys, edit)
        }
        Event::Extend { signed, standing, keys } => {
            revising::extend(draft, signed, *standing, keys)
        }
        Event::LicenceGone { approval } => approvals::licence_gone(draft, approval),
        Event::PolicyChanged { approval } => approvals::policy_changed(draft, approval),
        Event::Done { claim, output } => ending::done(draft, *claim, output.as_ref()),
        Event::Fail { claim, reason } => ending::fail(draft, *claim, reason),
        Event::Cancel { by, reason } => ending::cancel(draft, by, reason),
        Event::ParentNotified => ending::parent_notified(draft),
        Event::ChildEnded { seq } => ending::child_ended(draft, *seq),
        Event::WakeFailed => tick::wake_failed(draft),
        Event::WorkersGone => tick::workers_gone(draft),
        Event::Tick => tick::tick(draft, before),
    }
}

/// Applies several events as one commit: fewer commits, the same rules.
///
/// # Errors
/// The first rejection, and which event it answers. Nothing of the list happens then.
pub fn fold(run: Option<&Run>, events: &[Event], now: Ms) -> Result<Change, (usize, Reject)> {
    let mut whole: Option<Change> = None;
    for (place, event) in events.iter().enumerate() {
        let so_far = whole.as_ref().map(|change| &change.next).or(run);
        let change = apply(so_far, event, now).map_err(|why| (place, why))?;
        whole = Some(match whole {
            Some(earlier) => earlier.and_then(change),
            None => change,
        });
    }
    whole.ok_or((0, Reject::NothingDue))
}

impl Change {
    /// This change and a later one as a single commit. Both sets of conditions must hold.
    fn and_then(mut self, later: Self) -> Self {
        self.not_before = self.not_before.max(later.not_before);
        self.not_after = match (self.not_after, later.not_after) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.need_steady_clock |= later.need_steady_clock;
        self.policy_epoch = match (self.policy_epoch, later.policy_epoch) {
            // Epochs only rise: of two that differ the lower is void, so the commit is refused.
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let fresh: Vec<_> = self.licences_set.iter().map(|(id, _)| id.clone()).collect();
        self.require.extend(later.require.into_iter().filter(|id| !fresh.contains(id)));
        let again = |id: &ApprovalId| later.licences_set.iter().any(|(set, _)| set == id);
        self.licences_set.retain(|(id, _)| !later.licences_del.contains(id) && !again(id));
        self.licences_del.extend(later.licences_del.into_iter().filter(|id| !fresh.contains(id)));
        self.licences_set.extend(later.licences_set);
        self.durability = self.durability.max(later.durability);
        self.journal.extend(later.journal);
        for effect in later.effects {
            if !self.effects.contains(&effect) {
                self.effects.push(effect);
            }
        }
        self.next = later.next;
        let next = &self.next;
        self.effects.retain(|effect| effect.is_due(next));
        self
    }

    /// Whether the caller must not act before the commit is known to survive a failover.
    #[must_use]
    pub fn is_firm(&self) -> bool {
        self.durability == Durability::Firm
    }
}

#[cfg(test)]
mod tests;
