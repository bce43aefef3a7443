//! What really happened, written down by somebody who does not believe the record.
//!
//! Invariant: nothing here asks the rules whether they were kept.

mod duty;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use super::acts::{How, Step};
use super::proto::approval::{Approval, State};
use super::proto::call::{Call, Gate, OnUnknown, Progress, SideEffect, Status};
use super::proto::denial::DenialCode;
use super::proto::ids::{ApprovalId, ClaimId, Subject};
use super::proto::run::{ATTEMPTS_MAX, Event, Outcome, Phase, Run, apply, effective};
use super::proto::time::Ms;
use super::scenario::Scenario;
use super::world::{CHILD, PARENT, World};

/// A request as people saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    pub id: ApprovalId,
    pub cell: usize,
    pub seq: u32,
    /// The call's place in its turn.
    pub at: usize,
    pub nonce: u8,
    pub hash: [u8; 32],
    pub since: i64,
    pub deadline: i64,
    pub asked: BTreeSet<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Books {
    /// The first promise that was broken.
    pub broken: Option<&'static str>,
    pub ignores: &'static str,
    pub requests: BTreeMap<ApprovalId, Request>,
    /// Requests that were shown and then taken back by a failover.
    pub taken_back: BTreeSet<Request>,
    /// Who said yes, in time, to exactly what.
    yes: BTreeSet<(usize, u32, [u8; 32], Subject)>,
    uses: BTreeMap<(usize, u32), u8>,
    resolved: BTreeMap<ApprovalId, bool>,
    ended: BTreeMap<usize, Outcome>,
    cancelled: BTreeSet<usize>,
    pub revoked: BTreeSet<ApprovalId>,
    /// Claims that lapsed since the last progress.
    deaths: u8,
    /// The last numbers given out.
    pub claims: u8,
    pub nonces: u8,
}

/// The store's time of a commit, the lag of its clock, and the policy epoch.
type At = (i64, i64, u64);

/// Who took a step: did it hold the claim, and did the parent of a child still live?
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub rightful: bool,
    pub parent_lives: bool,
}

impl Books {
    pub(super) fn ignoring(ignores: &'static str) -> Self {
        Self { ignores, ..Self::default() }
    }

    fn demand(&mut self, promise: &'static str, kept: bool) {
        if !kept && self.broken.is_none() && promise != self.ignores {
            self.broken = Some(promise);
        }
    }

    /// People see a request.
    pub(super) fn request(
        &mut self,
        scenario: &Scenario,
        run: &Run,
        seq: u32,
        approval: &Approval,
        now: i64,
    ) {
        let known = self.requests.get(&approval.id);
        let since = known.map_or(now, |request| request.since);
        let call = scenario.call_of(run, seq);
        let mut asked: BTreeSet<usize> = call.asked.iter().copied().collect();
        if call.escalates && (since + 15_000 <= now || !call.inbox) {
            asked.insert(2);
        }
        let request = Request {
            id: approval.id.clone(),
            cell: if run.job.parent.is_some() { CHILD } else { PARENT },
            seq,
            at: scenario.place(run, seq),
            nonce: approval.nonce.0[0],
            hash: approval.args_hash.0,
            since,
            deadline: approval.deadline.0,
            asked,
        };
        if let Some(old) = known.filter(|old| old.nonce != request.nonce) {
            self.taken_back.insert(old.clone());
        }
        self.demand("I5", approval.deadline.0 + 10_000 <= run.hard_cap.0);
        self.requests.insert(approval.id.clone(), request);
    }

    /// The tool acts with the arguments of that digest.
    pub(super) fn acts(
        &mut self,
        cell: usize,
        seq: u32,
        call: &super::scenario::Call,
        hash: [u8; 32],
    ) {
        let times = self.uses.entry((cell, seq)).or_default();
        *times += 1;
        let once = *times <= 1 || call.effect != SideEffect::AtMostOnce;
        self.demand("I2", once);
        if call.gated {
            let said = |word: &&(usize, u32, [u8; 32], Subject)| {
                (word.0, word.1, word.2) == (cell, seq, hash)
            };
            let yes = self.yes.iter().filter(said).count();
            self.demand("I1", usize::from(call.need) <= yes);
        }
    }

    /// A step was committed: `before` is the run as time had decided it by then.
    pub(super) fn witness(
        &mut self,
        scenario: &Scenario,
        step: &Step,
        (cell, before, after): (usize, Option<&Run>, &Run),
        (at, who): (At, Who),
    ) {
        self.words(step, before, after, at);
        let Some(before) = before else { return };
        self.demand("I4", who.rightful);
        match step {
            Step::Start(_, seq, how) => self.start(scenario, cell, before, *seq, *how, at),
            Step::SayAndStart(_, seq, _) => {
                self.start(scenario, cell, after, *seq, How::Honestly, at);
            }
            Step::Claim(..) => {
                self.claim(before, after, at);
                let works = matches!(after.phase, Phase::Running { .. });
                self.demand("I9", who.parent_lives || !works);
            }
            Step::Tick(_) if matches!(before.phase, Phase::Running { .. }) => {
                self.deaths += u8::from(matches!(after.phase, Phase::Queued { .. }));
            }
            Step::Plan(..) | Step::Park(_) | Step::Finish(..) | Step::Spawn(..) => {
                self.deaths = 0;
                self.progress(scenario, step, (cell, before), at);
            }
            Step::AcceptAgain => self.demand("I9", false),
            Step::Done(_) => {
                self.demand("I8", before.calls.iter().all(Call::is_final));
                self.demand("L1", at.0 < before.hard_cap.0);
            }
            Step::ChildDone(seq, _) => {
                let open = before.call(*seq).is_some_and(|call| !call.is_final());
                self.demand("I9", before.is_live() && open);
            }
            Step::CloseGate(_, seq) => {
                let planned = |call: &Call| matches!(call.progress, Progress::Planned);
                self.demand("I9", before.call(*seq).is_some_and(planned));
            }
            _ => {}
        }
        self.holders(before, after, at);
        self.demand("I6", before.is_live() || step_of_last_words(step));
    }

    fn progress(&mut self, scenario: &Scenario, step: &Step, (cell, run): (usize, &Run), at: At) {
        match step {
            Step::Plan(_, truly) => {
                self.demand("I8", run.turn_calls().all(Call::is_final));
                self.demand("V1", *truly);
            }
            Step::Finish(_, seq) => {
                self.demand("I9", run.call(*seq).is_some_and(Call::is_started));
            }
            Step::Spawn(_, seq, within) => {
                self.start(scenario, cell, run, *seq, How::Honestly, at);
                self.demand("I9", *within);
            }
            _ => {}
        }
    }

    fn start(&mut self, scenario: &Scenario, cell: usize, run: &Run, seq: u32, how: How, at: At) {
        let (now, lag, epoch) = at;
        let known = scenario.call_of(run, seq);
        let live = run.is_live() && now < run.hard_cap.0 && !self.cancelled.contains(&cell);
        let held = match run.phase {
            Phase::Running { lease_until, step_deadline, .. } => {
                now < lease_until.0 && now < step_deadline.0
            }
            _ => false,
        };
        self.demand("I7", live && held && lag <= 5_000);
        let asks = known.gated && how == How::Asking || known.tightened;
        let asked = run.call(seq).and_then(Call::approval);
        let allowed = how != How::Forbidden && how != How::Drifted && (!asks || asked.is_some());
        self.demand("I7", allowed);
        self.demand("I7", run.fatal_refusal().is_none());
        if let Some(approval) = asked {
            let usable = match approval.state {
                State::Approved { use_by, .. } => now < use_by.0,
                State::Requested(_) | State::Refused(_) => false,
            };
            self.demand("I7", usable && approval.policy_epoch == epoch);
            self.demand("I7", !self.revoked.contains(&approval.id));
        }
    }

    fn claim(&mut self, before: &Run, after: &Run, (now, _, _): At) {
        let queued = matches!(before.phase, Phase::Queued { .. });
        self.demand("I4", queued);
        if matches!(after.phase, Phase::Running { .. }) {
            self.demand("I9", before.begun.is_some() || now < before.job.start_by.0);
            self.demand("L1", self.deaths < ATTEMPTS_MAX);
        }
        self.demand("I9", after.hard_cap <= before.hard_cap);
    }

    fn holders(&mut self, before: &Run, after: &Run, (now, _, _): At) {
        if let (Some((a, lease)), Some((b, _))) = (holder(before), holder(after)) {
            self.demand("I4", a == b || lease <= now);
        }
    }

    /// What was refused is neither open nor begun afterwards.
    pub(super) fn refusals(&mut self, before: &Run, after: &Run) {
        for call in before.calls.iter().filter(|call| call.refusal().is_some()) {
            let still = after.call(call.seq).is_some_and(|call| call.refusal().is_some());
            self.demand("D1", still);
        }
    }

    /// Whoever took the step was told that it counts.
    pub(super) fn told(&mut self, step: &Step, (cell, after): (usize, &Run)) {
        if let Some(ended) = after.ended() {
            self.ended.entry(cell).or_insert(ended.outcome);
        }
        if let Step::Cancel(cell) = step {
            self.cancelled.insert(*cell);
        }
        let (Step::Say(word) | Step::SayAndStart(_, _, word)) = step else { return };
        let resolution = after.approval(&word.id).and_then(|(_, approval)| resolution(approval));
        if let Some(yes) = resolution {
            let first = *self.resolved.entry(word.id.clone()).or_insert(yes);
            self.demand("I3", first == yes);
        }
    }

    /// Looks at a state as a whole.
    pub(super) fn look(&mut self, world: &World) {
        let now = world.now();
        for (cell, stored) in world.cells.iter().enumerate() {
            let Some(run) = &stored.run else { continue };
            self.timer(run, stored.timer, now);
            self.shape(run);
            self.end(cell, run, world);
            let yes = run.calls.iter().filter_map(Call::approval);
            for approval in yes {
                let told = self.resolved.get(&approval.id).copied();
                let stands =
                    told.is_none_or(|told| resolution(approval).is_none_or(|is| is == told));
                self.demand("I3", stands);
            }
            let holders = |hands: &&super::world::Hands| {
                hands.holds().is_some_and(|(c, claim)| c == cell && world.is_holder(cell, claim))
            };
            self.demand("I4", world.hands.iter().filter(holders).count() <= 1);
        }
        if let (Some(parent), Some(child)) = (world.run(PARENT), world.run(CHILD)) {
            let known = |call: &Call| !matches!(call.progress, Progress::Planned);
            self.demand("I9", parent.calls.iter().any(known));
            self.demand("I9", child.hard_cap.0 + 10_000 <= parent.hard_cap.0);
        }
    }

    fn timer(&mut self, run: &Run, timer: Option<Ms>, now: i64) {
        if run.is_live() {
            self.demand("I5", timer.is_some_and(|at| at <= run.hard_cap));
        }
        let Some(at) = timer else {
            let told = run.ended().is_some_and(|e| e.notify.is_none() && e.cancelling.is_empty());
            return self.demand("I10", told);
        };
        self.demand("L1", at.0 <= duty::first(run));
        if now < at.0 {
            // Nobody will look before that: so time must have nothing to say.
            self.demand("L1", effective(run, Ms(now)) == *run);
            return;
        }
        match apply(Some(run), &Event::Tick, Ms(now)) {
            Ok(change) => {
                let next = super::proto::run::next_deadline(&change.next);
                self.demand("L1", next.is_none_or(|next| now < next.0));
                self.demand("L1", now < run.hard_cap.0 || !change.next.is_live());
                let open = |call: &Call| call.approval().is_some_and(Approval::is_open);
                let late = |call: &Call| {
                    open(call) && call.approval().is_some_and(|a| a.deadline.0 <= now)
                };
                self.demand("L1", !change.next.calls.iter().any(late));
            }
            Err(_) => self.demand("L1", false),
        }
    }

    fn shape(&mut self, run: &Run) {
        let started = run.calls.iter().any(Call::is_started);
        match &run.phase {
            Phase::Running { lease_until, step_deadline, .. } => {
                self.demand("I4", lease_until <= step_deadline && *step_deadline <= run.hard_cap);
            }
            Phase::Waiting => {
                let waits = run.turn_calls().any(Call::is_waiting);
                self.demand("I8", !run.has_work() && waits && !started);
            }
            Phase::Queued { .. } | Phase::Backoff { .. } => self.demand("I8", !started),
            Phase::Ended(_) => {}
        }
        for call in &run.calls {
            let lost = matches!(call.progress, Progress::Finished { status: Status::Unknown, .. });
            let told = call.traits.on_unknown == OnUnknown::TellModel;
            self.demand("I6", !lost || told);
            // A gate that was refused never opens, and a request is never both.
            let begun = !matches!(call.progress, Progress::Planned);
            let refused = match &call.gate {
                Gate::Refused(_) => true,
                Gate::Asked(approval) => !approval.is_approved(),
                Gate::Allowed => false,
            };
            self.demand("D1", !(begun && refused));
        }
    }

    fn end(&mut self, cell: usize, run: &Run, world: &World) {
        let ended = run.ended().map(|ended| ended.outcome);
        if let Some(told) = self.ended.get(&cell).copied() {
            self.demand("I6", ended == Some(told));
        }
        let Some(ended) = run.ended() else { return };
        let open = run.calls.iter().any(|call| {
            matches!(call.progress, Progress::Planned)
                && call.approval().is_some_and(Approval::is_open)
        });
        self.demand("I10", !open && world.cells[cell].licences.is_empty());
        let children = run.calls.iter().filter(|c| matches!(c.progress, Progress::Spawned { .. }));
        let child_lives = world.run(CHILD).is_none_or(Run::is_live);
        if cell == PARENT && 0 < children.count() && child_lives {
            self.demand("I10", !ended.cancelling.is_empty());
        }
        let all = run.calls.iter().all(Call::is_final);
        self.demand("I6", ended.outcome != Outcome::Succeeded || all);
        let tool = |call: &Call| call.is_started();
        let honest = matches!(ended.outcome, Outcome::Failed) && run.calls.iter().any(tool);
        self.demand("I6", !honest);
    }
}

fn step_of_last_words(step: &Step) -> bool {
    matches!(step, Step::Tick(_) | Step::ParentNotified | Step::ChildEnded(_))
}

fn holder(run: &Run) -> Option<(ClaimId, i64)> {
    match run.phase {
        Phase::Running { claim, lease_until, .. } => Some((claim, lease_until.0)),
        _ => None,
    }
}

/// What people were told became of a request, if people decided it.
fn resolution(approval: &Approval) -> Option<bool> {
    match &approval.state {
        State::Approved { .. } => Some(true),
        State::Refused(denial) if denial.code == DenialCode::Denied => Some(false),
        State::Refused(_) => None,
        State::Requested(_) => None,
    }
}
