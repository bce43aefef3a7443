//! Lives of runs to test with: a test mentions only what matters to it.

mod events;
mod signing;

use serde_json::json;

use crate::approval::Approval;
use crate::call::{OnDenied, OnUnknown, SideEffect, Traits, args_hash, fingerprint};
use crate::decision::{Channel, Decision, Extension, Verdict};
use crate::denial::DenialCode;
use crate::digest::Digest;
use crate::ids::{
    AgentName, ClaimId, JobKey, Nonce, PoolName, RouteName, RunId, ShardCount, Subject, Tenant,
    ToolName,
};
use crate::job::{Attendance, Job, Limits, Origin, Parent, Payload};
use crate::policy::{self, Level, Risk, Terms};
use crate::run::event::Standing;
use crate::run::{
    Ask, Change, Edit, Event, Gating, Outcome, PlannedCall, Reject, Run, Start, apply,
};
use crate::time::Ms;

pub(super) use events::*;
pub(super) use signing::*;

/// When every life begins.
pub(super) const T0: Ms = Ms(1_000_000_000);
pub(super) const HOUR_MS: i64 = 3_600_000;
pub(super) const A: ClaimId = ClaimId([0xA; 16]);
pub(super) const B: ClaimId = ClaimId([0xB; 16]);
pub(super) const EPOCH: u64 = 7;

pub(super) fn subject(name: &str) -> Subject {
    Subject::new(name).unwrap()
}

pub(super) fn text(words: &str) -> Payload {
    Payload::Inline(json!(words))
}

pub(super) fn run_id(key: &JobKey) -> RunId {
    RunId::of(key, ShardCount::new(16).unwrap())
}

pub(super) fn job() -> Job {
    let tenant = Tenant::new("acme").unwrap();
    Job {
        key: JobKey::api(&tenant, b"one"),
        tenant,
        agent: AgentName::new("deployer").unwrap(),
        input: text("in"),
        input_hash: Digest::of_bytes(b"in"),
        origin: Origin::Webhook { route: RouteName::new("github").unwrap() },
        attendance: Attendance::Unattended,
        limits: Limits::default(),
        start_by: T0.plus(24 * HOUR_MS),
        parent: None,
        trace: None,
    }
}

/// A job that a run above ordered; it must end ten seconds before `hard_cap`.
pub(super) fn job_under(hard_cap: Ms) -> Job {
    let run = run_id(&job().key);
    let key = JobKey::child(&run, 0);
    Job { key, parent: Some(Parent { run, call: 0, depth: 1, hard_cap }), ..job() }
}

pub(super) fn limited(change: impl FnOnce(&mut Limits)) -> Job {
    let mut job = job();
    change(&mut job.limits);
    job
}

/// A call to be planned: at most once, allowed, until said otherwise.
#[derive(Clone)]
pub(super) struct Plan {
    tool: &'static str,
    args: serde_json::Value,
    pub(super) traits: Traits,
    pub(super) gating: Gating,
}

pub(super) fn call(tool: &'static str) -> Plan {
    let traits = Traits {
        effect: SideEffect::AtMostOnce,
        timeout_ms: 300_000,
        on_denied: OnDenied::TellModel,
        on_unknown: OnUnknown::Fail,
    };
    Plan { tool, args: json!({"of": tool}), traits, gating: Gating::Allow }
}

pub(super) fn terms(need: u8, eligible: &[&str]) -> Terms {
    let mut eligible: Vec<_> = eligible.iter().map(|name| subject(name)).collect();
    eligible.sort();
    let pool = PoolName::new("ops").unwrap();
    Terms { pool, risk: Risk::High, need, eligible, inbox: false, levels: Vec::new() }
}

/// Members of another pool, asked as well after `after_ms`.
pub(super) fn level(after_ms: i64, pool: &str, add: &[&str]) -> Level {
    let add = add.iter().map(|name| subject(name)).collect();
    Level { after_ms, pool: PoolName::new(pool).unwrap(), add, inbox: false }
}

pub(super) fn ask_on(terms: Terms) -> Ask {
    Ask { terms, nonce: Nonce([9; 16]), policy_epoch: EPOCH }
}

/// A call that alice or bob must approve.
pub(super) fn gated(tool: &'static str) -> Plan {
    call(tool).asking(terms(1, &["alice", "bob"]))
}

impl Plan {
    pub(super) fn asking(mut self, terms: Terms) -> Self {
        self.gating = Gating::Ask(ask_on(terms));
        self
    }

    pub(super) fn denied(mut self, code: DenialCode) -> Self {
        self.gating = Gating::Deny { code, detail: None };
        self
    }

    pub(super) fn effect(mut self, effect: SideEffect) -> Self {
        self.traits.effect = effect;
        self
    }

    pub(super) fn on_unknown(mut self, then: OnUnknown) -> Self {
        self.traits.on_unknown = then;
        self
    }

    pub(super) fn on_denied(mut self, then: OnDenied) -> Self {
        self.traits.on_denied = then;
        self
    }

    /// The call as number `seq` of a run.
    pub(super) fn at(&self, run: &RunId, seq: u32) -> PlannedCall {
        let tool = ToolName::new(self.tool).unwrap();
        PlannedCall {
            args_hash: args_hash(run, seq, &tool, &self.args).unwrap(),
            fingerprint: fingerprint(&tool, &self.args).unwrap(),
            args: Payload::Inline(self.args.clone()),
            tool,
            traits: self.traits,
            gating: self.gating.clone(),
        }
    }
}

/// A run, the time, and the last thing that was changed.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) run: Option<Run>,
    pub(super) now: Ms,
    pub(super) last: Option<Change>,
}

impl Life {
    pub(super) fn none() -> Self {
        Self { run: None, now: T0, last: None }
    }

    #[track_caller]
    pub(super) fn of(job: Job) -> Self {
        Self::none().then(|_| accepted(job))
    }

    /// Queued, claimed by [`A`].
    #[track_caller]
    pub(super) fn held(job: Job) -> Self {
        Self::of(job).then(|_| claim(A))
    }

    /// Queued, claimed, and a turn planned.
    #[track_caller]
    pub(super) fn with(plans: &[Plan]) -> Self {
        Self::held(job()).plan(plans)
    }

    pub(super) fn run(&self) -> &Run {
        self.run.as_ref().unwrap()
    }

    pub(super) fn last(&self) -> &Change {
        self.last.as_ref().unwrap()
    }

    pub(super) fn asked(&self, seq: u32) -> &Approval {
        self.run().call(seq).and_then(|call| call.approval()).unwrap()
    }

    pub(super) fn answer(&self, event: &Event) -> Result<Change, Reject> {
        apply(self.run.as_ref(), event, self.now)
    }

    /// What must be accepted, is.
    #[track_caller]
    pub(super) fn then(mut self, event: impl FnOnce(&Self) -> Event) -> Self {
        let event = event(&self);
        let change = match self.answer(&event) {
            Ok(change) => change,
            Err(why) => panic!("{} in {:?}: {why}", event.name(), self.run),
        };
        self.run = Some(change.next.clone());
        self.last = Some(change);
        self
    }

    pub(super) fn later(mut self, ms: i64) -> Self {
        self.now = self.now.plus(ms);
        self
    }

    pub(super) fn until(mut self, at: Ms) -> Self {
        self.now = at;
        self
    }

    #[track_caller]
    pub(super) fn plan(self, plans: &[Plan]) -> Self {
        self.then(|life| life.planning(plans))
    }

    #[track_caller]
    pub(super) fn approve(self, who: &str, seq: u32) -> Self {
        self.then(|life| life.deciding(who, seq, Verdict::Approve))
    }

    #[track_caller]
    pub(super) fn deny(self, who: &str, seq: u32) -> Self {
        self.then(|life| life.deciding(who, seq, Verdict::Deny))
    }

    #[track_caller]
    pub(super) fn start(self, seq: u32) -> Self {
        self.then(|life| life.starting(seq))
    }

    #[track_caller]
    pub(super) fn finish(self, seq: u32) -> Self {
        self.then(|_| finish(A, seq))
    }

    #[track_caller]
    pub(super) fn spawn(self, seq: u32) -> Self {
        self.then(|life| life.spawning(seq))
    }

    #[track_caller]
    pub(super) fn tick(self) -> Self {
        self.then(|_| Event::Tick)
    }

    #[track_caller]
    pub(super) fn park(self) -> Self {
        self.then(|_| Event::Park { claim: A })
    }

    pub(super) fn planning(&self, plans: &[Plan]) -> Event {
        let run = self.run();
        let numbers = u32::try_from(run.calls.len()).unwrap()..;
        let calls = plans.iter().zip(numbers).map(|(plan, seq)| plan.at(&run.id, seq)).collect();
        Event::Planned { claim: A, calls, definition: None }
    }

    pub(super) fn decision(&self, who: &str, seq: u32, verdict: Verdict) -> Decision {
        let approval = self.asked(seq);
        Decision {
            v: 1,
            approval_id: approval.id.clone(),
            nonce: approval.nonce,
            args_hash: approval.args_hash,
            verdict,
            approver: subject(who),
            channel: Channel::Amqp,
            issued_at: T0,
            reason: None,
        }
    }

    pub(super) fn deciding(&self, who: &str, seq: u32, verdict: Verdict) -> Event {
        decide_with(sign(self.decision(who, seq, verdict), who), Standing::Member)
    }

    /// What the worker of a call shows when its own gate says what it said before.
    pub(super) fn showing(&self, seq: u32) -> Start {
        let call = self.run().call(seq).unwrap();
        let verdict = match call.approval() {
            Some(_) => policy::Verdict::Ask(terms(1, &["alice", "bob"])),
            None => policy::Verdict::Allow,
        };
        Start { args_hash: call.args_hash, verdict, keys: keys() }
    }

    pub(super) fn starting(&self, seq: u32) -> Event {
        Event::StartTool { claim: A, seq, start: self.showing(seq) }
    }

    /// The job that call `seq` may start.
    pub(super) fn child(&self, seq: u32) -> Job {
        let run = self.run();
        let (depth, hard_cap) = (run.job.depth() + 1, run.hard_cap);
        Job {
            key: JobKey::child(&run.id, seq),
            parent: Some(Parent { run: run.id.clone(), call: seq, depth, hard_cap }),
            ..run.job.clone()
        }
    }

    pub(super) fn spawning(&self, seq: u32) -> Event {
        let job = self.child(seq);
        let child = run_id(&job.key);
        Event::SpawnChild { claim: A, seq, start: self.showing(seq), child, job: Box::new(job) }
    }

    pub(super) fn child_done(&self, seq: u32, outcome: Outcome) -> Event {
        Event::ChildDone { seq, child: run_id(&self.child(seq).key), outcome, result: text("out") }
    }

    /// The words of an approver who asks for more time.
    pub(super) fn extension(&self, who: &str, seq: u32, until: Ms) -> Extension {
        let Decision { v, approval_id, nonce, args_hash, approver, channel, issued_at, .. } =
            self.decision(who, seq, Verdict::Approve);
        let reason = None;
        Extension { v, approval_id, nonce, args_hash, until, approver, channel, issued_at, reason }
    }

    pub(super) fn extending(&self, who: &str, seq: u32, until: Ms) -> Event {
        extend_with(sign_extension(self.extension(who, seq, until), who), Standing::Member)
    }

    /// A narrower call in place of call `seq`.
    pub(super) fn edit(&self, seq: u32, words: &str) -> Edit {
        let (run, tool) = (&self.run().id, &self.run().call(seq).unwrap().tool);
        let args = json!({"only": words});
        Edit {
            args_hash: args_hash(run, seq, tool, &args).unwrap(),
            fingerprint: fingerprint(tool, &args).unwrap(),
            args: Payload::Inline(args),
            nonce: Nonce([10; 16]),
        }
    }

    /// The decision of an approver who allows that call instead.
    pub(super) fn edited(&self, who: &str, seq: u32, edit: &Edit) -> Decision {
        Decision { args_hash: edit.args_hash, ..self.decision(who, seq, Verdict::Approve) }
    }

    pub(super) fn editing(&self, who: &str, seq: u32, words: &str) -> Event {
        let edit = self.edit(seq, words);
        edit_with(sign(self.edited(who, seq, &edit), who), Standing::Member, edit)
    }

    pub(super) fn published(&self, seq: u32) -> Event {
        Event::Published { approval: self.asked(seq).id.clone(), rev: self.asked(seq).rev }
    }

    pub(super) fn unroutable(&self, seq: u32) -> Event {
        Event::Unroutable { approval: self.asked(seq).id.clone(), rev: self.asked(seq).rev }
    }
}
