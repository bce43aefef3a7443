//! A change in the making: the next state, and what must hold when it is committed.

use crate::approval::{Pending, State};
use crate::call::{Call, Gate, Progress};
use crate::denial::{Denial, DenialCode};
use crate::ids::{ApprovalId, ClaimId};
use crate::job::Payload;
use crate::journal::{Entry, Fact};
use crate::run::{
    Change, Durability, Effect, Ended, Outcome, Phase, RING_MS_FIRST, Reason, Reject, Run,
};
use crate::time::Ms;
use crate::topology::Lane;

pub(in crate::run) struct Draft {
    pub(in crate::run) next: Run,
    pub(in crate::run) now: Ms,
    not_after: Option<Ms>,
    pub(super) need_steady_clock: bool,
    pub(super) policy_epoch: Option<u64>,
    require: Vec<ApprovalId>,
    licences_set: Vec<(ApprovalId, Ms)>,
    licences_del: Vec<ApprovalId>,
    durability: Durability,
    journal: Vec<Entry>,
    effects: Vec<Effect>,
}

impl Draft {
    pub(in crate::run) fn of(next: Run, now: Ms) -> Self {
        Self {
            next,
            now,
            not_after: None,
            need_steady_clock: false,
            policy_epoch: None,
            require: Vec::new(),
            licences_set: Vec::new(),
            licences_del: Vec::new(),
            durability: Durability::Soft,
            journal: Vec::new(),
            effects: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, fact: Fact) {
        self.journal.push(Entry { at: self.now, fact });
    }

    pub(super) fn order(&mut self, effect: Effect) {
        if !self.effects.contains(&effect) {
            self.effects.push(effect);
        }
    }

    pub(super) fn firm(&mut self) {
        self.durability = Durability::Firm;
    }

    pub(super) fn not_after(&mut self, at: Ms) {
        self.not_after = Some(self.not_after.map_or(at, |before| before.min(at)));
    }

    pub(super) fn require(&mut self, licence: ApprovalId) {
        self.require.push(licence);
    }

    pub(super) fn set_licence(&mut self, licence: ApprovalId, deadline: Ms) {
        self.licences_set.push((licence, deadline));
    }

    pub(super) fn drop_licence(&mut self, licence: ApprovalId) {
        self.licences_set.retain(|(id, _)| *id != licence);
        self.licences_del.push(licence);
    }

    /// The claim that the run is held under, if it is this one.
    pub(super) fn held(&self, claim: ClaimId) -> Result<(), Reject> {
        match &self.next.phase {
            Phase::Running { claim: holder, .. } if *holder == claim => Ok(()),
            Phase::Ended(_) => Err(Reject::Terminal),
            Phase::Running { .. }
            | Phase::Queued { .. }
            | Phase::Waiting
            | Phase::Backoff { .. } => Err(Reject::LostClaim),
        }
    }

    pub(super) fn call_mut(&mut self, seq: u32) -> Result<&mut Call, Reject> {
        usize::try_from(seq)
            .ok()
            .and_then(|at| self.next.calls.get_mut(at))
            .ok_or(Reject::NoSuchCall(seq))
    }

    /// Puts the run back in a queue and rings.
    pub(super) fn queue(&mut self, lane: Lane) {
        let ring_at = self.now.plus(RING_MS_FIRST);
        self.next.phase = Phase::Queued { lane, rings: 0, failed: 0, ring_at };
        self.order(Effect::Wake(lane));
    }

    /// A parked run goes on as soon as one call may run or all of its turn are settled.
    pub(in crate::run) fn rouse(&mut self) {
        if matches!(self.next.phase, Phase::Waiting) && self.next.has_work() {
            self.note(Fact::Roused);
            self.queue(Lane::Hi);
        }
    }

    /// Says no to a call that has not started.
    pub(in crate::run) fn refuse(&mut self, at: usize, denial: Denial) {
        let call = &mut self.next.calls[at];
        let licence = match &mut call.gate {
            Gate::Asked(approval) => {
                let open = approval.is_open();
                approval.state = State::Refused(denial.clone());
                open.then(|| approval.id.clone())
            }
            gate @ (Gate::Allowed | Gate::Refused(_)) => {
                *gate = Gate::Refused(denial.clone());
                None
            }
        };
        let (call, tool) = (call.seq, call.tool.clone());
        if let Some(licence) = licence {
            self.drop_licence(licence);
        }
        self.note(Fact::Denied { call, tool, denial });
    }

    /// Ends the run: open requests are withdrawn, children cancelled, the parent told.
    pub(in crate::run) fn end(
        &mut self,
        outcome: Outcome,
        reason: Reason,
        output: Option<Payload>,
    ) {
        for at in 0..self.next.calls.len() {
            let call = &mut self.next.calls[at];
            let undecided = !call.is_final();
            let withdrawn = call
                .pending_approval_mut()
                .filter(|_| undecided)
                .map(|approval| approval.denial(DenialCode::Withdrawn, self.now));
            if let Some(denial) = withdrawn {
                self.refuse(at, denial);
            }
        }
        let pending = Pending::first(self.now);
        let children: Vec<u32> = self
            .next
            .calls
            .iter()
            .filter(|call| matches!(call.progress, Progress::Spawned { .. }))
            .map(|call| call.seq)
            .collect();
        let notify = self.next.job.parent.is_some().then_some(pending);
        self.note(Fact::Ended {
            outcome,
            code: reason.code.clone(),
            detail: reason.detail.clone(),
        });
        let cancelling = children.iter().map(|seq| (*seq, pending)).collect();
        let (at, firm) = (self.now, Durability::Firm);
        if notify.is_some() {
            self.order(Effect::NotifyParent);
        }
        self.effects.extend(children.into_iter().map(Effect::CancelChild));
        let ended = Ended { at, outcome, reason, output, notify, cancelling };
        self.next.phase = Phase::Ended(Box::new(ended));
        self.durability = firm;
    }

    /// Ends a run that may not outlive a refusal, as soon as no tool of it is running.
    pub(in crate::run) fn end_if_refused(&mut self) {
        if !self.next.is_live() || self.next.calls.iter().any(Call::is_started) {
            return;
        }
        let detail = self.next.fatal_refusal().map(|(call, denial)| {
            format!("call {} of `{}` was refused: {}", call.seq, call.tool, denial.code)
        });
        if let Some(detail) = detail {
            let reason = Reason::because("denied", &detail);
            self.end(Outcome::CompletedWithDenials, reason, None);
        }
    }

    /// The finished change, relative to what the run was before.
    pub(super) fn finish(mut self, before: &Run) -> Change {
        let settled = |run: &Run| run.turn_calls().all(Call::is_final);
        if settled(&self.next) && (self.next.turn != before.turn || !settled(before)) {
            self.begin_step();
        }
        let next = &self.next;
        self.effects.retain(|effect| effect.is_due(next));
        if before.is_live() && self.next.hard_cap > self.now {
            // Whoever commits after the cap must find the run timed out, not changed.
            self.not_after(self.next.hard_cap);
        }
        Change {
            next: self.next,
            not_before: None,
            not_after: self.not_after,
            need_steady_clock: self.need_steady_clock,
            policy_epoch: self.policy_epoch,
            require: self.require,
            licences_set: self.licences_set,
            licences_del: self.licences_del,
            durability: self.durability,
            journal: self.journal,
            effects: self.effects,
        }
    }

    /// A turn is settled: the next step has its whole time.
    fn begin_step(&mut self) {
        let (step, cap) = (self.next.job.limits.step_ms, self.next.hard_cap);
        self.next.step_left_ms = step;
        match &mut self.next.phase {
            Phase::Running { step_deadline, .. } => *step_deadline = self.now.plus(step).min(cap),
            Phase::Queued { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => {}
        }
    }
}
