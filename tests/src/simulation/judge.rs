//! What must hold after every commit and at every effect, judged by somebody outside the store.
//!
//! Authority: its own books: who really said what, which start was answered, what really happened.
//! Invariant: nothing here is asked of the product; a promise is broken when the books say so.

mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, Weak};

use portcullis_engine::ports::Commit;
use portcullis_engine::record::Record;
use portcullis_engine::release::START_MS_MAX;
use portcullis_proto::approval::{Approval, State};
use portcullis_proto::call::{Call, Gate, Progress, args_hash};
use portcullis_proto::decision::{Decision, Verdict};
use portcullis_proto::denial::DenialCode;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, Nonce, RunId, Subject};
use portcullis_proto::run::{Outcome, Phase, Run, effective, next_deadline};
use portcullis_proto::time::Ms;
use portcullis_worker::tools::Invocation;

use super::store::{MemoryStore, Watch, Written};
use super::world::World;

/// Tools whose every call needs somebody's yes, whatever a record says.
pub const GATED: [&str; 2] = ["asks", "pair"];

/// A yes, as its approver meant it.
type Yes = (ApprovalId, Subject, Digest, [u8; 16]);

struct Begun {
    claim: String,
    op: [u8; 8],
    at_ms: i64,
    args_hash: Digest,
}

#[derive(Default)]
struct Books {
    /// Every run as it was last written.
    runs: BTreeMap<String, Run>,
    yes: BTreeSet<Yes>,
    begun: BTreeMap<(String, u32), Vec<Begun>>,
    answered: BTreeSet<[u8; 8]>,
    ends: BTreeMap<[u8; 8], (String, Outcome)>,
    ended: BTreeMap<String, Outcome>,
    effects: BTreeMap<(String, u32), u64>,
    revoked: BTreeSet<ApprovalId>,
    /// Who was told that their word counts.
    counted: Vec<(ApprovalId, Subject, Verdict)>,
    accepted: BTreeSet<String>,
}

/// The books of one seed.
#[derive(Default)]
pub struct Judge {
    books: Mutex<Books>,
}

impl Judge {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// Somebody is about to say yes to exactly this.
    pub fn says_yes(&self, decision: &Decision) {
        let (id, who) = (decision.approval_id.clone(), decision.approver.clone());
        self.books().yes.insert((id, who, decision.args_hash, decision.nonce.0));
    }

    /// An approver was told that its word counts.
    pub fn was_told(&self, id: &ApprovalId, who: &Subject, verdict: Verdict) {
        self.books().counted.push((id.clone(), who.clone(), verdict));
    }

    /// A trigger was told that its job is accepted.
    pub fn accepted(&self, run: &str) {
        self.books().accepted.insert(run.to_owned());
    }

    pub fn revoked(&self, id: &ApprovalId) {
        self.books().revoked.insert(id.clone());
    }

    /// A process was told that its commit happened.
    pub fn answered(&self, commit: &Commit) {
        let mut books = self.books();
        books.answered.insert(commit.op.0);
        if let Some((run, outcome)) = books.ends.get(&commit.op.0).cloned() {
            books.ended.insert(run, outcome);
        }
    }

    /// Every open request, as an approver with a clear view sees it.
    #[must_use]
    pub fn open_requests(&self) -> Vec<Approval> {
        let books = self.books();
        let calls = books.runs.values().filter(|run| run.is_live()).flat_map(|run| &run.calls);
        let asked = calls.filter(|call| call.is_waiting()).filter_map(Call::approval);
        asked.filter(|approval| approval.is_open()).cloned().collect()
    }

    /// A tool acts, now, for good.
    pub fn acts(&self, world: &World, tool: &str, call: &Invocation, once: bool) {
        let mut books = self.books();
        let (run, seq) = call.idempotency_key.rsplit_once('/').expect("<run>/<seq>");
        let key = (run.to_owned(), seq.parse::<u32>().expect("a number"));
        let times = books.effects.entry(key.clone()).or_default();
        *times += 1;
        let times = *times;
        let story = format!("{tool} of {run}/{seq}, the {times}. time, claim {}", call.claim_id);
        if once && 1 < times {
            world.broken("a call that must happen once happened twice", &story);
        }
        let begun = books.begun.get(&key).into_iter().flatten();
        let Some(start) = begun.rev().find(|start| start.claim == call.claim_id) else {
            return world.broken("a tool acted without a committed start", &story);
        };
        if !books.answered.contains(&start.op) {
            world.broken("a tool acted on a start that nobody confirmed", &story);
        }
        if START_MS_MAX < world.elapsed_ms() - start.at_ms {
            world.broken("a tool acted long after its start", &story);
        }
        let id = RunId::new(run).expect("a run id");
        let hash = args_hash(&id, key.1, &tool.parse().expect("a name"), &call.args);
        if hash.ok() != Some(start.args_hash) {
            world.broken("a tool acted on other arguments than were committed", &story);
        }
    }
}

/// Looks over the store's shoulder.
pub struct Witness(pub Weak<World>);

impl Watch for Witness {
    fn written(&self, store: &MemoryStore, written: &Written<'_>) {
        let Some(world) = self.0.upgrade() else { return };
        let member = written.commit.key.timer_member();
        let lines =
            || format!("{member} {:?} {:?}", written.commit.durability, written.commit.feed);
        world.note("written", lines);
        if !member.starts_with("c:") {
            let next = Record::decode(&written.commit.bytes).expect("a record").run;
            let mut books = world.judge.books();
            let before = books.runs.insert(member.clone(), next.clone());
            books.witness(&world, store, written, before.as_ref(), &next);
        }
    }

    fn rolled_back(&self, store: &MemoryStore, commits: usize) {
        let Some(world) = self.0.upgrade() else { return };
        if 0 < commits {
            world.note("rollbacks", || format!("{commits} commits lost"));
        }
        let read = |(id, bytes): (String, bytes::Bytes)| {
            (id, Record::decode(&bytes).expect("a record").run)
        };
        world.judge.books().runs = store.runs().into_iter().map(read).collect();
    }
}

impl Books {
    fn witness(
        &mut self,
        world: &World,
        store: &MemoryStore,
        written: &Written<'_>,
        before: Option<&Run>,
        next: &Run,
    ) {
        let (commit, now, id) = (written.commit, written.now, next.id.to_string());
        let broken = |promise: &str| world.broken(promise, &format!("{before:#?}\n{next:#?}"));
        if commit.next_deadline != next_deadline(next) {
            broken("a timer is not what the run asks for");
        }
        if next.is_live() && commit.next_deadline.is_none_or(|at| next.hard_cap < at) {
            broken("a live run has no timer before its hard cap");
        }
        if let (Some(old), Some(new)) = (before.and_then(Run::ended), next.ended())
            && (old.at, old.outcome) != (new.at, new.outcome)
        {
            broken("an end was changed");
        }
        if before.is_some_and(|run| !run.is_live()) && next.is_live() {
            broken("an ended run rose again");
        }
        if self.ended.get(&id).is_some_and(|o| next.ended().is_none_or(|e| e.outcome != *o)) {
            broken("an end that was confirmed is gone");
        }
        if let Some(ended) = next.ended().filter(|_| before.is_none_or(Run::is_live)) {
            self.ends.insert(commit.op.0, (id.clone(), ended.outcome));
            world.count(match ended.outcome {
                Outcome::Succeeded => "ended: succeeded",
                Outcome::CompletedWithDenials => "ended: completed with denials",
                Outcome::Failed => "ended: failed",
                Outcome::TimedOut => "ended: timed out",
                Outcome::Cancelled => "ended: cancelled",
                Outcome::Interrupted => "ended: interrupted",
            });
        }
        if matches!(next.phase, Phase::Waiting) {
            let seen = effective(next, now);
            if matches!(seen.phase, Phase::Waiting)
                && (!next.turn_calls().any(Call::is_waiting) || seen.has_work())
            {
                broken("a run waits for nothing");
            }
            if next.calls.iter().any(Call::is_started) {
                broken("a run waits while a tool runs");
            }
            if before.is_none_or(|run| !matches!(run.phase, Phase::Waiting)) {
                world.count("parked");
            }
        }
        for call in &next.calls {
            let old = before.and_then(|run| run.call(call.seq));
            if let Some(promise) = self.call(world, store, written, next, old, call) {
                broken(promise);
            }
        }
    }

    /// The promise that a call's change breaks, if it does.
    fn call(
        &mut self,
        world: &World,
        store: &MemoryStore,
        written: &Written<'_>,
        run: &Run,
        old: Option<&Call>,
        new: &Call,
    ) -> Option<&'static str> {
        let now = written.now;
        if old.is_some_and(|old| old.refusal().is_some()) && new.refusal().is_none() {
            return Some("a refusal was taken back");
        }
        let once = !new.traits.effect.may_repeat();
        let was_begun = old.is_some_and(|old| !matches!(old.progress, Progress::Planned));
        if was_begun && once && matches!(new.progress, Progress::Planned) {
            return Some("a call that must happen once would begin again");
        }
        if matches!(new.progress, Progress::Started { .. }) && !old.is_some_and(Call::is_started) {
            let Phase::Running { claim, .. } = run.phase else {
                return Some("a call began without a holder");
            };
            if run.hard_cap <= now {
                return Some("a call began after the hard cap");
            }
            if let Some(promise) = self.gate(store, new, now) {
                return Some(promise);
            }
            let (op, at_ms) = (written.commit.op.0, world.elapsed_ms());
            let begun = Begun { claim: claim.to_string(), op, at_ms, args_hash: new.args_hash };
            self.begun.entry((run.id.to_string(), new.seq)).or_default().push(begun);
        }
        let approval = new.approval()?;
        let was = old.and_then(Call::approval);
        let promise = self.votes(world, was, approval, now);
        if promise.is_some() {
            return promise;
        }
        let open = new.is_waiting() && run.is_live() && now < approval.deadline;
        if open && store.licence(&approval.id) != Some(approval.deadline) {
            return (!self.revoked.contains(&approval.id)).then_some("a request has no licence");
        }
        None
    }

    /// Has the call that begins its yes, from people who said it, to exactly this, in time?
    fn gate(&self, store: &MemoryStore, call: &Call, now: Ms) -> Option<&'static str> {
        let gated = GATED.contains(&call.tool.as_str());
        let Gate::Asked(approval) = &call.gate else {
            return gated.then_some("a gated call began without a request");
        };
        let State::Approved { use_by, .. } = approval.state else {
            return Some("a gated call began without an approval");
        };
        if use_by <= now {
            return Some("a gated call began on a stale approval");
        }
        if approval.policy_epoch != store.policy_now() {
            return Some("a gated call began under another policy");
        }
        let voters: BTreeSet<_> = approval
            .votes
            .iter()
            .filter(|vote| vote.at < approval.deadline && self.is_meant(&vote.signed.decision))
            .map(|vote| &vote.signed.decision.approver)
            .collect();
        let need = if call.tool.as_str() == "pair" { 2 } else { 1 };
        (voters.len() < need).then_some("a gated call began without enough people's yes")
    }

    fn is_meant(&self, decision: &Decision) -> bool {
        let Nonce(nonce) = decision.nonce;
        let (id, who) = (decision.approval_id.clone(), decision.approver.clone());
        decision.verdict == Verdict::Approve
            && self.yes.contains(&(id, who, decision.args_hash, nonce))
    }

    fn votes(
        &self,
        world: &World,
        was: Option<&Approval>,
        is: &Approval,
        now: Ms,
    ) -> Option<&'static str> {
        let known = was.filter(|was| was.id == is.id).map_or(0, |was| was.votes.len());
        for vote in is.votes.iter().skip(known) {
            let decision = &vote.signed.decision;
            if decision.verdict == Verdict::Approve && !self.is_meant(decision) {
                return Some("a yes counts that nobody said");
            }
            if decision.verdict == Verdict::Approve && is.deadline <= now {
                return Some("a late yes counts");
            }
        }
        if is.is_approved() && !was.is_some_and(Approval::is_approved) {
            world.count("approved");
        }
        if let (Some(denial), None) = (is.refusal(), was.and_then(Approval::refusal)) {
            let early = denial.code == DenialCode::ApprovalTimedOut && now < is.deadline;
            world.count(if early {
                // A process whose guess of the time ran ahead of a clock that stands still denies
                // early. That refuses, so it is counted and not forbidden.
                "expired on a guess"
            } else if denial.code == DenialCode::ApprovalTimedOut {
                "expired"
            } else if denial.code == DenialCode::Denied {
                "denied"
            } else {
                "refused otherwise"
            });
        }
        None
    }
}
