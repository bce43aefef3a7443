//! Everything that somebody or something can do, as the event that the product makes of it.

use super::cast::{self, Lie, Word};
use super::proto::call::{Status, args_hash, fingerprint};
use super::proto::decision::KeyRing;
use super::proto::denial::DenialCode;
use super::proto::digest::Digest;
use super::proto::ids::{ApprovalId, RunId};
use super::proto::job::{Attendance, Payload};
use super::proto::policy::Verdict;
use super::proto::run::{
    Ask, Edit, Event, Outcome, Parentage, Reason, Run, Standing, Start, effective,
};
use super::proto::time::Ms;
use super::scenario::Scenario;
use super::world::{CHILD, PARENT, World, claim_id};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Until the store's time is this.
    Wait(i64),
    /// The store's clock jumps by so many milliseconds.
    Clock(i64),
    /// A failover takes back what was not firm.
    Rollback(usize),
    DeleteLicence(ApprovalId),
    RaiseEpoch,
    Crash(usize),
    /// The started tool acts.
    Use(usize),
    Do(Step, Timing),
}

/// How a commit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timing {
    Prompt,
    /// It arrives when time has moved on to the next deadline.
    Slow,
    /// It happens, and nobody is told.
    Lost,
}

/// With what a worker starts a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    Honestly,
    /// It would pass other arguments.
    Drifted,
    /// Its policy now says no.
    Forbidden,
    /// Its policy now asks.
    Asking,
}

impl How {
    /// The digest of what will be passed.
    pub(super) fn hash(self, run: &Run, seq: u32) -> [u8; 32] {
        let Some(call) = run.call(seq) else { return [0; 32] };
        let Payload::Inline(args) = &call.args else { return [0; 32] };
        let passed = if self == Self::Drifted { cast::args(true) } else { args.clone() };
        args_hash(&run.id, seq, &call.tool, &passed).expect("plain JSON").0
    }
}

/// A step that is committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    AcceptAgain,
    Claim(usize, usize),
    Renew(usize),
    /// Honestly, or with the digest of other arguments.
    Plan(usize, bool),
    AskAgain(usize, u32),
    CloseGate(usize, u32),
    Start(usize, u32, How),
    /// As a child within its parent's bounds, or beyond them.
    Spawn(usize, u32, bool),
    Finish(usize, u32),
    Park(usize),
    Release(usize, Option<i64>),
    Done(usize),
    Fail(usize),
    Cancel(usize),
    Tick(usize),
    WakeFailed(usize),
    WorkersGone(usize),
    Published(u32),
    Unroutable(u32),
    Say(Word),
    SayAndStart(usize, u32, Word),
    Edit(Word),
    Extend(Word, i64),
    LicenceGone(ApprovalId),
    PolicyChanged(ApprovalId),
    CreateChild(u32),
    ChildCreated(u32),
    ChildDone(u32, bool),
    ParentNotified,
    CancelChild,
    ChildEnded(u32),
}

impl Step {
    /// Whose step it is, if a worker's.
    pub(super) const fn worker(&self) -> Option<usize> {
        match self {
            Self::Claim(worker, _)
            | Self::Renew(worker)
            | Self::Plan(worker, _)
            | Self::AskAgain(worker, _)
            | Self::CloseGate(worker, _)
            | Self::Start(worker, _, _)
            | Self::Spawn(worker, _, _)
            | Self::Finish(worker, _)
            | Self::Park(worker)
            | Self::Release(worker, _)
            | Self::Done(worker)
            | Self::Fail(worker)
            | Self::SayAndStart(worker, _, _) => Some(*worker),
            _ => None,
        }
    }

    /// Whose record it changes.
    pub(super) fn cell(&self, world: &World) -> usize {
        match self {
            Self::Claim(_, cell)
            | Self::Cancel(cell)
            | Self::Tick(cell)
            | Self::WakeFailed(cell)
            | Self::WorkersGone(cell) => *cell,
            Self::CreateChild(_) | Self::ParentNotified | Self::CancelChild => CHILD,
            Self::SayAndStart(..) => PARENT,
            other => {
                let held = other.worker().and_then(|worker| world.hands[worker].holds());
                held.map_or(PARENT, |(cell, _)| cell)
            }
        }
    }

    /// The events of the one commit. Nothing where it makes no sense.
    pub(super) fn events(&self, scenario: &Scenario, world: &mut World) -> Option<Vec<Event>> {
        if let Self::SayAndStart(_, seq, word) = self {
            return Some(vec![
                say(word),
                new_claim(world, Parentage::None),
                Event::StartTool {
                    claim: claim_id(world.books.claims),
                    seq: *seq,
                    start: start(scenario, world.run(PARENT)?, *seq, How::Honestly),
                },
            ]);
        }
        self.event(scenario, world).map(|event| vec![event])
    }

    fn event(&self, scenario: &Scenario, world: &mut World) -> Option<Event> {
        let held = self.worker().and_then(|worker| world.hands[worker].holds());
        if let Some((cell, number)) = held
            && !matches!(self, Self::Claim(..))
        {
            let run = world.run(cell)?.clone();
            return self.of_holder(scenario, world, &run, claim_id(number));
        }
        Some(match self {
            Self::AcceptAgain => {
                let job = Box::new(super::cast::job(scenario));
                Event::Accepted { id: world.run(PARENT)?.id.clone(), job }
            }
            Self::Claim(_, cell) => {
                let parentage = match (*cell, world.run(PARENT)) {
                    (CHILD, Some(parent)) if effective(parent, Ms(world.now())).is_live() => {
                        Parentage::Live
                    }
                    (CHILD, _) => Parentage::Ended,
                    _ => Parentage::None,
                };
                new_claim(world, parentage)
            }
            Self::Cancel(_) | Self::CancelChild => {
                Event::Cancel { by: "somebody".to_owned(), reason: Reason::of("asked") }
            }
            Self::Tick(_) => Event::Tick,
            Self::WakeFailed(_) => Event::WakeFailed,
            Self::WorkersGone(_) => Event::WorkersGone,
            Self::Say(word) => say(word),
            Self::Edit(word) => {
                world.books.nonces += 1;
                edit(world.run(PARENT)?, word, world.books.nonces)
            }
            Self::Extend(word, until) => {
                let (signed, standing) = (Box::new(word.extension(Ms(*until))), standing(word));
                Event::Extend { signed, standing, keys: cast::keys() }
            }
            Self::LicenceGone(id) => Event::LicenceGone { approval: id.clone() },
            Self::PolicyChanged(id) => Event::PolicyChanged { approval: id.clone() },
            other => return other.of_delivery(world),
        })
    }

    fn of_delivery(&self, world: &World) -> Option<Event> {
        let run = world.run(PARENT)?;
        let request = |seq: &u32| {
            let approval = run.call(*seq)?.approval()?;
            Some((approval.id.clone(), approval.rev))
        };
        Some(match self {
            Self::Published(seq) => {
                let (approval, rev) = request(seq)?;
                Event::Published { approval, rev }
            }
            Self::Unroutable(seq) => {
                let (approval, rev) = request(seq)?;
                Event::Unroutable { approval, rev }
            }
            Self::CreateChild(seq) => {
                let job = cast::child(run, usize::try_from(*seq).ok()?);
                Event::Accepted { id: cast::id_of(&job), job: Box::new(job) }
            }
            Self::ChildCreated(seq) => Event::ChildCreated { seq: *seq },
            Self::ChildDone(seq, well) => {
                let child = cast::id_of(&cast::child(run, usize::try_from(*seq).ok()?));
                let outcome = if *well { Outcome::Succeeded } else { Outcome::Failed };
                Event::ChildDone { seq: *seq, child, outcome, result: nothing() }
            }
            Self::ParentNotified => Event::ParentNotified,
            Self::ChildEnded(seq) => Event::ChildEnded { seq: *seq },
            _ => return None,
        })
    }

    fn of_holder(
        &self,
        scenario: &Scenario,
        world: &mut World,
        run: &Run,
        claim: super::proto::ids::ClaimId,
    ) -> Option<Event> {
        Some(match self {
            Self::Renew(_) => Event::Renew { claim },
            Self::Plan(_, truly) => {
                let calls = plan(scenario, world, run, *truly)?;
                Event::Planned { claim, calls, definition: None }
            }
            Self::AskAgain(_, seq) => {
                let ask = ask(scenario.call_of(run, *seq), world);
                Event::NeedApproval { claim, seq: *seq, ask }
            }
            Self::CloseGate(_, seq) => {
                let (code, detail) = (DenialCode::PolicyDenied, None);
                Event::GateClosed { claim, seq: *seq, code, detail }
            }
            Self::Start(_, seq, how) => {
                Event::StartTool { claim, seq: *seq, start: start(scenario, run, *seq, *how) }
            }
            Self::Spawn(_, seq, within) => {
                let mut job = cast::child(run, usize::try_from(*seq).ok()?);
                let child = cast::id_of(&job);
                if !within {
                    job.attendance = Attendance::Unattended;
                    job.origin = super::proto::job::Origin::Webhook { route: "r".parse().ok()? };
                }
                let start = start(scenario, run, *seq, How::Honestly);
                Event::SpawnChild { claim, seq: *seq, start, child, job: Box::new(job) }
            }
            Self::Finish(_, seq) => {
                let status = Status::Succeeded;
                Event::FinishTool { claim, seq: *seq, status, result: nothing() }
            }
            Self::Park(_) => Event::Park { claim },
            Self::Release(_, backoff_ms) => {
                Event::Release { claim, backoff_ms: *backoff_ms, why: "drains".to_owned() }
            }
            Self::Done(_) => Event::Done { claim, output: None },
            Self::Fail(_) => Event::Fail { claim, reason: Reason::of("failed") },
            _ => return None,
        })
    }
}

fn nothing() -> Payload {
    Payload::Inline(serde_json::Value::Null)
}

fn new_claim(world: &mut World, parentage: Parentage) -> Event {
    world.left.claims = world.left.claims.saturating_sub(1);
    world.books.claims += 1;
    Event::Claim { claim: claim_id(world.books.claims), parentage }
}

fn ask(call: &super::scenario::Call, world: &mut World) -> Ask {
    world.books.nonces += 1;
    let nonce = cast::nonce(world.books.nonces);
    Ask { terms: cast::terms(call), nonce, policy_epoch: world.policy_epoch }
}

fn plan(
    scenario: &Scenario,
    world: &mut World,
    run: &Run,
    truly: bool,
) -> Option<Vec<super::proto::run::PlannedCall>> {
    let calls = scenario.turn_of(run)?;
    let first = u32::try_from(run.calls.len()).ok()?;
    let one = |(at, call): (usize, &super::scenario::Call)| {
        let asks = (call.gated && !call.tightened).then(|| ask(call, world));
        let seq = first + u32::try_from(at).expect("few");
        cast::planned(&run.id, seq, at, call, asks, truly)
    };
    Some(calls.iter().enumerate().map(one).collect())
}

fn start(scenario: &Scenario, run: &Run, seq: u32, how: How) -> Start {
    let verdict = match how {
        How::Forbidden => Verdict::Deny { code: DenialCode::PolicyDenied, detail: None },
        How::Asking => Verdict::Ask(cast::terms(scenario.call_of(run, seq))),
        How::Honestly | How::Drifted => cast::verdict(scenario.call_of(run, seq)),
    };
    Start { args_hash: Digest(how.hash(run, seq)), verdict, keys: cast::keys() }
}

fn standing(word: &Word) -> Standing {
    if word.lie == Lie::Left { Standing::NoMember } else { Standing::Member }
}

fn say(word: &Word) -> Event {
    let keys: std::sync::Arc<KeyRing> = cast::keys();
    Event::Decide { signed: Box::new(word.signed()), standing: standing(word), keys }
}

/// The digest of the edited arguments of a call.
pub(super) fn edited_hash(run: &RunId, seq: u32, at: usize) -> [u8; 32] {
    args_hash(run, seq, &cast::tool(at), &cast::args(true)).expect("plain JSON").0
}

fn edit(run: &Run, word: &Word, number: u8) -> Event {
    let seq = word.id.call();
    let tool = run.call(seq).map_or_else(|| cast::tool(0), |call| call.tool.clone());
    let args = cast::args(true);
    let edit = Edit {
        args_hash: args_hash(&run.id, seq, &tool, &args).expect("plain JSON"),
        fingerprint: fingerprint(&tool, &args).expect("plain JSON"),
        args: Payload::Inline(args),
        nonce: cast::nonce(number),
    };
    let (signed, standing) = (Box::new(word.signed()), standing(word));
    Event::DecideEdited { signed, standing, keys: cast::keys(), edit: Box::new(edit) }
}
