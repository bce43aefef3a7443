//! The last word on a seed, when the storm is over and time has run on.

use portcullis_proto::approval::Approval;
use portcullis_proto::call::{Call, Progress, Status};
use portcullis_proto::decision::Verdict;
use portcullis_proto::denial::DenialCode;
use portcullis_proto::run::{Outcome, Run};

use super::{Books, Judge};
use crate::simulation::world::World;

impl Judge {
    /// Whether every run has ended and told everybody.
    #[must_use]
    pub fn is_over(&self, world: &World) -> bool {
        let books = self.books();
        let told =
            |run: &Run| run.ended().is_some_and(|e| e.notify.is_none() && e.cancelling.is_empty());
        let known = |id: &String| books.runs.contains_key(id);
        world.bus.jobs_left() == 0
            && books.runs.values().all(told)
            && books.accepted.iter().all(known)
    }

    /// Judges the whole.
    pub fn conclude(&self, world: &World) {
        let books = self.books();
        for id in &books.accepted {
            if !books.runs.contains_key(id) {
                world.broken("an accepted trigger was lost", id);
            }
        }
        for run in books.runs.values() {
            if run.is_live() {
                world.broken("a run never ended", &format!("{run:#?}"));
            }
            if let Some(promise) = books.honest(run) {
                world.broken(promise, &format!("{run:#?}"));
            }
        }
        for (id, who, verdict) in &books.counted {
            let run = books.runs.get(id.run().as_str());
            let call = run.and_then(|run| run.call(id.call()));
            let stands =
                call.and_then(Call::approval).filter(|a| a.id == *id).is_some_and(
                    |a| match verdict {
                        Verdict::Approve => has_yes(a, who),
                        Verdict::Deny => a.refusal().is_some_and(|d| d.code == DenialCode::Denied),
                    },
                );
            if !stands {
                world.broken("a word that counted is gone", &format!("{id} {who} {verdict:?}"));
            }
        }
        for (id, outcome) in &books.ended {
            let ended = books.runs.get(id).and_then(Run::ended);
            if ended.is_none_or(|ended| ended.outcome != *outcome) {
                world.broken("a confirmed end is gone", id);
            }
        }
    }
}

fn has_yes(approval: &Approval, who: &portcullis_proto::ids::Subject) -> bool {
    let mut votes = approval.votes.iter().map(|vote| &vote.signed.decision);
    votes.any(|said| said.approver == *who && said.verdict == Verdict::Approve)
}

impl Books {
    /// The promise that an ended run's story breaks, held against what really happened.
    fn honest(&self, run: &Run) -> Option<&'static str> {
        let outcome = run.ended()?.outcome;
        for call in run.calls.iter().filter(|call| call.tool.as_str() != "agent") {
            let key = (run.id.to_string(), call.seq);
            let times = self.effects.get(&key).copied().unwrap_or(0);
            let once = !call.traits.effect.may_repeat();
            match &call.progress {
                Progress::Planned if once && 0 < times => {
                    return Some("a call acted, and its run says that it never began");
                }
                Progress::Finished { status, .. } => match status {
                    Status::Succeeded | Status::Failed if times == 0 => {
                        return Some("a call is said to have acted, and did not");
                    }
                    Status::NotRun if once && 0 < times => {
                        return Some("a call is said not to have run, and did");
                    }
                    Status::Succeeded
                    | Status::Failed
                    | Status::NotRun
                    | Status::Unknown
                    | Status::CompletedWithDenials => {}
                },
                Progress::Planned | Progress::Started { .. } | Progress::Spawned { .. } => {}
            }
        }
        let refused = run.has_denials();
        if outcome == Outcome::Succeeded && (refused || !run.calls.iter().all(Call::is_final)) {
            return Some("a run succeeded with calls refused or open");
        }
        None
    }
}
