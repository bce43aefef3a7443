//! What can happen in a state: every kind of event, with right and with wrong arguments.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use super::super::fixtures::*;
use super::ghost::Ghost;
use crate::approval::State;
use crate::call::{Call, Progress, SideEffect, Status};
use crate::decision::{Decision, Verdict};
use crate::denial::DenialCode;
use crate::digest::Digest;
use crate::ids::{ApprovalId, ClaimId, Nonce};
use crate::job::{Job, Limits};
use crate::policy::{self, Terms};
use crate::run::event::Standing;
use crate::run::{Event, Outcome, Parentage, Phase, Reason, Run, Start, next_deadline};
use crate::time::Ms;

/// Whether an event may ever be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Right,
    Wrong,
}
use Claim::{Right, Wrong};

pub(super) enum Act {
    Event(Event, Claim),
    Wait(Ms),
    DeleteLicence(ApprovalId),
    RaisePolicyEpoch,
}

/// How much is offered at once: few things to every state there is, or all to some.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// What one call alone can show is not tried on two, and wrong decisions take turns.
    Narrow,
    Wide,
}

impl Width {
    /// No turn after this one.
    const fn turns_max(self) -> u32 {
        match self {
            Self::Narrow => 2,
            Self::Wide => 6,
        }
    }
}

/// A child's job whose times are so short that nine steps reach all of them.
static SHORT: LazyLock<Job> = LazyLock::new(|| {
    let limits = Limits { cap_ms: 120_000, step_ms: 60_000, approval_ms: 25_000 };
    Job { limits, start_by: T0.plus(60_000), ..job_under(T0.plus(HOUR_MS)) }
});

pub(super) fn menu(run: Option<&Run>, now: Ms, ghost: &Ghost, width: Width) -> Vec<Act> {
    let Some(run) = run else {
        let unknown = [claim(A), cancel(), Event::Tick, Event::ParentNotified];
        let unknown = unknown.into_iter().map(|event| Act::Event(event, Wrong));
        return unknown.chain([Act::Event(accepted(SHORT.clone()), Right)]).collect();
    };
    let life = Life { run: Some(run.clone()), now, last: None };
    let mut hasher = DefaultHasher::new();
    run.hash(&mut hasher);
    let turn = usize::from(hasher.finish().to_le_bytes()[0]);
    let mut menu = Menu { acts: Vec::new(), life, width, turn };
    menu.holding(ghost);
    menu.planning(run);
    run.calls.iter().filter(|call| call.turn == run.turn).for_each(|call| menu.calling(call));
    run.calls.iter().filter(|call| call.turn == run.turn).for_each(|call| menu.deciding(call));
    menu.ending(run);
    menu.waiting(run, now);
    if ghost.policy_epoch == EPOCH && run.calls.iter().any(|call| call.approval().is_some()) {
        menu.acts.push(Act::RaisePolicyEpoch);
    }
    menu.acts
}

struct Menu {
    acts: Vec<Act>,
    life: Life,
    width: Width,
    /// Differs from state to state.
    turn: usize,
}

impl Menu {
    fn add(&mut self, event: Event, claim: Claim) {
        self.acts.push(Act::Event(event, claim));
    }

    /// The claim that holds the run, or would.
    fn holder(&self) -> ClaimId {
        match self.life.run().phase {
            Phase::Running { claim, .. } => claim,
            Phase::Queued { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => A,
        }
    }

    fn tries_all(&self) -> bool {
        self.width == Width::Wide || self.life.run().turn_calls().count() == 1
    }

    /// The same event under the claim that holds, and under one that did.
    fn by(&mut self, event: impl Fn(ClaimId) -> Event) {
        self.add(event(self.holder()), Right);
        self.add(event(ClaimId([0xFF; 16])), Wrong);
    }

    fn holding(&mut self, ghost: &Ghost) {
        let fresh = ClaimId([ghost.claims % 2; 16]);
        self.add(Event::Claim { claim: fresh, parentage: Parentage::Live }, Right);
        self.add(Event::Claim { claim: fresh, parentage: Parentage::None }, Wrong);
        self.add(Event::Claim { claim: fresh, parentage: Parentage::Ended }, Right);
        self.by(|claim| Event::Renew { claim });
        self.by(|claim| Event::Park { claim });
        self.by(|claim| Event::Release { claim, backoff_ms: None, why: "drain".into() });
        if self.tries_all() {
            let backoff_ms = Some(10_000);
            self.add(Event::Release { claim: self.holder(), backoff_ms, why: "llm".into() }, Right);
            self.by(|claim| Event::Fail { claim, reason: Reason::of("agent_error") });
            self.add(Event::WakeFailed, Right);
            self.add(Event::WorkersGone, Right);
        }
    }

    fn planning(&mut self, run: &Run) {
        if self.width.turns_max() <= run.turn {
            return;
        }
        let two = gated("put").asking(terms(2, &["alice", "bob"])).effect(SideEffect::Idempotent);
        let levels = vec![level(10_000, "leads", &["carol"])];
        let levelled = Terms { levels, ..terms(1, &["alice"]) };
        let plans: [&[Plan]; 3] = [
            &[call("rm").asking(levelled)],
            &[two, call("ls").effect(SideEffect::ReadOnly)],
            &[call("agent")],
        ];
        let first = u32::try_from(run.calls.len()).unwrap();
        let calls = |plans: &[Plan], first: u32| -> Vec<_> {
            (first..).zip(plans).map(|(seq, plan)| plan.at(&run.id, seq)).collect()
        };
        for plan in plans {
            let event =
                |claim| Event::Planned { claim, calls: calls(plan, first), definition: None };
            self.add(event(self.holder()), Right);
        }
        let (claim, definition) = (ClaimId([0xFF; 16]), None);
        self.add(Event::Planned { claim, calls: calls(plans[0], first), definition: None }, Wrong);
        let claim = self.holder();
        self.add(Event::Planned { claim, calls: calls(plans[0], first + 1), definition }, Wrong);
    }

    fn calling(&mut self, call: &Call) {
        let seq = call.seq;
        let (claim, stale) = (self.holder(), ClaimId([0xFF; 16]));
        let right = self.life.showing(seq);
        let other_args = Start { args_hash: Digest::of_bytes(b"x"), ..right.clone() };
        let start = |claim, start: &Start| Event::StartTool { claim, seq, start: start.clone() };
        self.add(start(claim, &right), Right);
        self.add(start(claim, &other_args), Wrong);
        self.add(start(stale, &right), Wrong);
        let finish = |claim| Event::FinishTool {
            claim,
            seq,
            status: Status::Succeeded,
            result: text("out"),
        };
        self.add(finish(claim), Right);
        self.add(finish(stale), Wrong);
        if self.tries_all() {
            let verdict = policy::Verdict::Deny { code: DenialCode::PolicyDenied, detail: None };
            self.add(start(claim, &Start { verdict, ..right.clone() }), Wrong);
            let ask = ask_on(terms(1, &["alice"]));
            self.add(Event::NeedApproval { claim, seq, ask: ask.clone() }, Right);
            self.add(Event::NeedApproval { claim: stale, seq, ask }, Wrong);
            let (code, detail) = (DenialCode::PolicyDenied, None);
            self.add(Event::GateClosed { claim, seq, code, detail }, Right);
            self.spawning(seq, &right, &other_args);
        }
    }

    fn spawning(&mut self, seq: u32, right: &Start, other_args: &Start) {
        let claim = self.holder();
        let job = self.life.child(seq);
        let child = run_id(&job.key);
        let stranger = Job { parent: None, ..job.clone() };
        let spawn = |job: &Job, start: &Start| {
            let (start, child, job) = (start.clone(), child.clone(), Box::new(job.clone()));
            Event::SpawnChild { claim, seq, start, child, job }
        };
        self.add(spawn(&job, right), Right);
        self.add(spawn(&stranger, right), Wrong);
        self.add(spawn(&job, other_args), Wrong);
        self.add(Event::ChildCreated { seq }, Right);
        let done = |child| Event::ChildDone {
            seq,
            child,
            outcome: Outcome::Succeeded,
            result: text("out"),
        };
        self.add(done(child.clone()), Right);
        self.add(done(self.life.run().id.clone()), Wrong);
    }

    fn deciding(&mut self, call: &Call) {
        let Some(approval) = call.approval() else { return };
        let (id, seq, rev) = (approval.id.clone(), call.seq, approval.rev);
        let published = |rev| Event::Published { approval: id.clone(), rev };
        self.add(published(rev), Right);
        self.add(published(rev + 1), Wrong);
        self.add(Event::Unroutable { approval: id.clone(), rev }, Right);
        if self.width == Width::Wide || self.life.run().is_live() {
            self.add(self.life.deciding("alice", seq, Verdict::Approve), Right);
        }
        if self.tries_all() {
            self.add(Event::LicenceGone { approval: id.clone() }, Right);
            self.add(Event::PolicyChanged { approval: id.clone() }, Right);
            if self.width == Width::Wide || (id.number(), rev) == (1, 1) {
                self.acts.push(Act::DeleteLicence(id.clone()));
            }
        }
        if !approval.is_open() || !matches!(call.progress, Progress::Planned) {
            return;
        }
        self.add(self.life.deciding("alice", seq, Verdict::Deny), Right);
        for who in ["bob", "carol"] {
            let claim = if approval.eligible.contains(&subject(who)) { Right } else { Wrong };
            if claim == Right || self.width == Width::Wide {
                self.add(self.life.deciding(who, seq, Verdict::Approve), claim);
            }
        }
        if self.tries_all() {
            self.revising(seq, id.number(), rev);
        }
        self.mistaking(seq);
    }

    /// A later deadline, and other arguments: few times each, for each makes all anew.
    fn revising(&mut self, seq: u32, number: u32, rev: u32) {
        let times = if self.width == Width::Wide { 3 } else { 1 };
        if rev <= times {
            let until = self.life.asked(seq).deadline.plus(15_000);
            self.add(self.life.extending("alice", seq, until), Right);
        }
        if number <= times {
            self.add(self.life.editing("alice", seq, "tmp"), Right);
        }
    }

    /// Words of approvers that must never count. A signature takes longer to check than all the
    /// rest: narrowly, they take turns.
    fn mistaking(&mut self, seq: u32) {
        let life = &self.life;
        let yes = life.decision("alice", seq, Verdict::Approve);
        let edit = life.edit(seq, "tmp");
        let more = life.extension("alice", seq, life.asked(seq).deadline.plus(15_000));
        let (member, left) = (Standing::Member, Standing::NoMember);
        let words: [&dyn Fn() -> Event; 11] = [
            &|| decide_with(sign(yes.clone(), "mallory"), member),
            &|| decide_with(sign(yes.clone(), "bob"), member),
            &|| decide_with(sign(yes.clone(), "alice"), left),
            &|| {
                let args_hash = Digest::of_bytes(b"x");
                decide_with(sign(Decision { args_hash, ..yes.clone() }, "alice"), member)
            },
            &|| {
                let nonce = Nonce([1; 16]);
                decide_with(sign(Decision { nonce, ..yes.clone() }, "alice"), member)
            },
            &|| life.deciding("mallory", seq, Verdict::Approve),
            &|| edit_with(sign(yes.clone(), "alice"), member, edit.clone()),
            &|| {
                let no = life.edited("alice", seq, &edit);
                let no = sign(Decision { verdict: Verdict::Deny, ..no }, "alice");
                edit_with(no, member, edit.clone())
            },
            &|| edit_with(sign(life.edited("alice", seq, &edit), "alice"), left, edit.clone()),
            &|| extend_with(sign_extension(more.clone(), "alice"), left),
            &|| extend_with(sign_extension(more.clone(), "bob"), member),
        ];
        let turn = self.turn % words.len();
        let chosen = words
            .iter()
            .enumerate()
            .filter(|(place, _)| self.width == Width::Wide || *place == turn);
        let events: Vec<Event> = chosen.map(|(_, word)| word()).collect();
        events.into_iter().for_each(|event| self.add(event, Wrong));
    }

    fn ending(&mut self, run: &Run) {
        let again = Job { input_hash: Digest::of_bytes(b"other"), ..SHORT.clone() };
        self.add(accepted(SHORT.clone()), Wrong);
        self.add(accepted(again), Wrong);
        self.by(|claim| Event::Done { claim, output: None });
        self.add(cancel(), Right);
        self.add(Event::Tick, Right);
        self.add(Event::ParentNotified, Right);
        for call in run.calls.iter().take(2) {
            self.add(Event::ChildEnded { seq: call.seq }, Right);
        }
    }

    /// To the moments that matter, and to one millisecond before them.
    fn waiting(&mut self, run: &Run, now: Ms) {
        let asked = run.turn_calls().filter_map(Call::approval);
        let answers = asked.filter_map(|approval| match approval.state {
            State::Requested(_) => Some(approval.deadline),
            State::Approved { use_by, .. } => Some(use_by),
            State::Refused(_) => None,
        });
        let cap = run.is_live().then_some(run.hard_cap);
        let mut moments: Vec<Ms> = answers.collect();
        moments.extend(moments.clone().iter().map(|at| at.minus(1)));
        moments.extend(next_deadline(run).into_iter().chain(cap));
        moments.sort();
        moments.dedup();
        self.acts.extend(moments.into_iter().filter(|at| now < *at).map(Act::Wait));
    }
}
