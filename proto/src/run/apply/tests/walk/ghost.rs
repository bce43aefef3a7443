//! What really happened, kept apart from the run, and what must therefore hold.

use std::collections::{BTreeMap, BTreeSet};

use super::super::fixtures::*;
use crate::approval::{CAP_RESERVE_MS, USE_BY_MS};
use crate::call::{Call, Gate, Progress};
use crate::decision::{Decision, SignedExtension, Verdict};
use crate::ids::{ApprovalId, Subject};
use crate::run::{Change, Durability, Edit, Effect, Event, Phase, Run, effective, next_deadline};
use crate::time::Ms;

#[derive(Clone, Hash)]
pub(super) struct Ghost {
    /// The store's.
    pub(super) policy_epoch: u64,
    /// Licences the store holds, with their expiry.
    licences: BTreeMap<ApprovalId, Ms>,
    /// Licences that an operator deleted.
    deleted: BTreeSet<ApprovalId>,
    /// Every request ever made.
    asked: BTreeMap<ApprovalId, Asked>,
    /// How often each call began.
    starts: BTreeMap<u32, u8>,
    pub(super) claims: u8,
}

#[derive(Clone, Hash)]
struct Asked {
    deadline: Ms,
    policy_epoch: u64,
    need: usize,
    /// Who approved in time, and when.
    votes: BTreeMap<Subject, Ms>,
}

impl Default for Ghost {
    fn default() -> Self {
        Self {
            policy_epoch: EPOCH,
            licences: BTreeMap::new(),
            deleted: BTreeSet::new(),
            asked: BTreeMap::new(),
            starts: BTreeMap::new(),
            claims: 0,
        }
    }
}

impl Ghost {
    pub(super) fn licence_lives(&self, id: &ApprovalId, now: Ms) -> bool {
        self.licences.get(id).is_some_and(|expiry| now < *expiry)
    }

    pub(super) fn delete_licence(&mut self, id: &ApprovalId) {
        self.licences.remove(id);
        self.deleted.insert(id.clone());
    }

    pub(super) fn nothing_was_due(&self, run: &Run, now: Ms) {
        let due = next_deadline(run).is_some_and(|at| at <= now);
        assert!(!due, "its timer would ring for ever: {run:?}");
    }

    /// Remembers one accepted event, and judges it.
    pub(super) fn witness(
        &mut self,
        before: Option<&Run>,
        event: &Event,
        change: &Change,
        now: Ms,
    ) {
        let next = &change.next;
        for id in &change.licences_del {
            self.licences.remove(id);
        }
        if let Event::DecideEdited { signed, edit, .. } = event {
            self.witness_edit(before, &signed.decision, edit, change, now);
        } else if let Event::Extend { signed, .. } = event {
            self.witness_extension(next, signed, change, now);
        } else {
            for (id, expiry) in &change.licences_set {
                self.remember_request(next, id, *expiry, now);
            }
        }
        for (id, expiry) in &change.licences_set {
            self.licences.insert(id.clone(), *expiry);
            assert_eq!(change.durability, Durability::Firm, "what people see is firm");
            assert!(change.effects.contains(&Effect::PublishRequest(id.clone())));
        }
        if let Event::Claim { .. } = event {
            self.claims = (self.claims + 1) % 2;
        }
        if let Event::Decide { signed, .. } = event
            && signed.decision.verdict == Verdict::Approve
        {
            self.witness_vote(&signed.decision.approval_id, &signed.decision.approver, change, now);
        }
        let Some(before) = before else { return };
        if let Event::StartTool { seq, .. } | Event::SpawnChild { seq, .. } = event {
            self.witness_start(before, *seq, change, now);
        }
        if let Phase::Ended(ended) = &before.phase {
            let Phase::Ended(still) = &next.phase else { panic!("{before:?} rose again") };
            let outcome =
                |e: &crate::run::Ended| (e.at, e.outcome, e.reason.clone(), e.output.clone());
            assert_eq!(outcome(ended), outcome(still), "an outcome changed");
            assert_eq!(before.calls, next.calls, "an ended run's calls changed");
        }
        assert!(next.hard_cap <= before.hard_cap, "a cap moved later");
        for (old, new) in before.calls.iter().zip(&next.calls) {
            judge_call(old, new);
            let edited = matches!(event, Event::DecideEdited { signed, .. }
                if signed.decision.approval_id.call() == old.seq);
            assert!(edited || (&old.args, old.args_hash) == (&new.args, new.args_hash));
        }
        assert_eq!(before.created, next.created);
        if next.ended().is_some() && before.is_live() {
            assert_eq!(change.durability, Durability::Firm, "an end is firm");
        }
    }

    fn remember_request(&mut self, run: &Run, id: &ApprovalId, deadline: Ms, now: Ms) {
        let own = now.plus(run.job.limits.approval_ms);
        assert_eq!(deadline, own.min(run.hard_cap.minus(CAP_RESERVE_MS)));
        let (_, approval) = run.approval(id).expect("a licence is for a request of this run");
        let asked = Asked {
            deadline,
            policy_epoch: approval.policy_epoch,
            need: usize::from(approval.need.max(1)),
            votes: BTreeMap::new(),
        };
        let earlier = self.asked.insert(id.clone(), asked);
        assert!(earlier.is_none(), "an id was given out twice");
    }

    /// A vote for other arguments opens another request, and closes the old one for good.
    fn witness_edit(
        &mut self,
        before: Option<&Run>,
        decision: &Decision,
        edit: &Edit,
        change: &Change,
        now: Ms,
    ) {
        let old = decision.approval_id.clone();
        if let Some(asked) = self.asked.get_mut(&old) {
            asked.votes.remove(&decision.approver);
        }
        self.witness_vote(&old, &decision.approver, change, now);
        assert_eq!(decision.args_hash, edit.args_hash, "a vote for another call");
        let call = before.and_then(|run| run.call(old.call())).expect("a call of this run");
        assert_ne!(call.args_hash, edit.args_hash);
        assert!(change.licences_del.contains(&old), "the old request can still be approved");
        let mut asked = self.asked.remove(&old).expect("witnessed above");
        asked.votes.retain(|who, _| *who == decision.approver);
        let new = ApprovalId::of(&change.next.id, old.call(), old.number() + 1);
        for (id, deadline) in &change.licences_set {
            assert_eq!((id, *deadline), (&new, asked.deadline), "an edit gains no time");
        }
        assert!(self.asked.insert(new, asked).is_none(), "an id was given out twice");
    }

    fn witness_extension(
        &mut self,
        next: &Run,
        signed: &SignedExtension,
        change: &Change,
        now: Ms,
    ) {
        let id = &signed.extension.approval_id;
        let asked = self.asked.get_mut(id).expect("only what was asked is extended");
        assert!(now < asked.deadline && change.not_after.is_some_and(|at| at <= asked.deadline));
        assert!(change.require.contains(id) && change.need_steady_clock && change.is_firm());
        let deadline = signed.extension.until.min(next.hard_cap.minus(CAP_RESERVE_MS));
        assert!(asked.deadline < deadline, "an extension that shortens");
        assert_eq!(change.licences_set, [(id.clone(), deadline)]);
        asked.deadline = deadline;
    }

    fn witness_vote(&mut self, id: &ApprovalId, by: &Subject, change: &Change, now: Ms) {
        let asked = self.asked.get_mut(id).expect("only what was asked is answered");
        assert!(now < asked.deadline, "a late approval counted");
        assert!(change.not_after.is_some_and(|at| at <= asked.deadline), "it may commit too late");
        assert!(change.require.contains(id), "it counts without its licence");
        assert!(change.need_steady_clock && change.is_firm());
        let earlier = asked.votes.insert(by.clone(), now);
        assert!(earlier.is_none(), "one person counted twice");
    }

    /// The promise that everything here is for.
    fn witness_start(&mut self, before: &Run, seq: u32, change: &Change, now: Ms) {
        let call = before.call(seq).expect("only a planned call starts");
        let Phase::Running { lease_until, step_deadline, .. } = before.phase else {
            panic!("started without a holder")
        };
        let window = lease_until.min(step_deadline).min(before.hard_cap);
        assert!(now < window && change.not_after.is_some_and(|at| at <= window));
        assert!(change.need_steady_clock, "started on a clock that may be wrong");
        let requests: Vec<_> = self.asked.iter().filter(|(id, _)| id.call() == seq).collect();
        for (_, asked) in &requests {
            assert!(asked.need <= asked.votes.len(), "started without its approvals");
            let decided = asked.votes.values().max().expect("at least one");
            let use_by = decided.plus(USE_BY_MS).min(before.hard_cap);
            assert!(now < use_by && change.not_after.is_some_and(|at| at <= use_by), "stale");
            assert_eq!(change.policy_epoch, Some(asked.policy_epoch));
            assert_eq!(self.policy_epoch, asked.policy_epoch, "the policy changed meanwhile");
        }
        let once = !call.traits.effect.may_repeat();
        if once || !requests.is_empty() {
            assert!(change.is_firm(), "begun before it was certain");
        }
        let starts = self.starts.entry(seq).or_default();
        *starts += 1;
        assert!(*starts == 1 || !once, "begun twice: {before:?}");
        assert!(*starts <= crate::call::TRIES_MAX);
    }

    /// What holds in every state, whatever led to it.
    pub(super) fn check(&self, run: &Run, now: Ms) {
        let seen = effective(run, now);
        let deadline = next_deadline(run);
        match &run.phase {
            Phase::Ended(ended) => {
                let untold = ended.notify.is_some() || !ended.cancelling.is_empty();
                assert_eq!(deadline.is_some(), untold, "a timer iff there is something to tell");
            }
            Phase::Queued { .. } | Phase::Running { .. } | Phase::Backoff { .. } => {}
            Phase::Waiting => {
                assert!(run.turn_calls().any(Call::is_waiting), "it waits for nothing");
                assert!(!run.has_work(), "it waits with work to do");
                assert!(!run.calls.iter().any(Call::is_started), "it waits while a tool runs");
            }
        }
        if run.is_live() {
            assert!(deadline.is_some_and(|at| at <= run.hard_cap), "{deadline:?}: {run:?}");
            let open = |call: &&Call| !call.is_final() && call.turn != run.turn;
            assert_eq!(run.calls.iter().find(open), None, "a call was left open in an old turn");
        }
        assert_eq!(effective(&seen, now), seen, "time has more to say about {run:?}");
        let open: BTreeSet<&ApprovalId> = seen
            .calls
            .iter()
            .filter(|call| matches!(call.progress, Progress::Planned))
            .filter_map(|call| call.approval().filter(|a| a.is_open()).map(|a| &a.id))
            .filter(|id| !self.deleted.contains(id))
            .collect();
        let alive = self.licences.keys().filter(|id| self.licence_lives(id, now)).collect();
        assert_eq!(open, alive, "open requests and licences are the same");
    }
}

/// What no step may do to a call.
fn judge_call(old: &Call, new: &Call) {
    assert_eq!(
        (old.seq, old.turn, &old.tool, old.traits),
        (new.seq, new.turn, &new.tool, new.traits),
        "a planned call was changed"
    );
    if let Some(denial) = old.refusal() {
        assert_eq!(new.refusal(), Some(denial), "a refusal was taken back");
    }
    let begun_once = !matches!(old.progress, Progress::Planned);
    if begun_once && !old.traits.effect.may_repeat() {
        assert!(!matches!(new.progress, Progress::Planned), "it would begin again");
    }
    if let Progress::Finished { .. } = old.progress {
        assert_eq!(old, new, "a finished call was changed");
    }
    assert!(
        matches!(new.gate, Gate::Asked(_)) || !matches!(old.gate, Gate::Asked(_)),
        "a gate was taken away"
    );
}
