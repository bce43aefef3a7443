//! Was it said, by whom, about what, and in time?

use super::super::acts::Step;
use super::super::cast::{self, Lie, Word};
use super::super::proto::approval::Vote;
use super::super::proto::call::Call;
use super::super::proto::run::Run;
use super::{At, Books};

impl Books {
    /// Every vote that was added must be somebody's word, as it was meant.
    pub(super) fn words(
        &mut self,
        step: &Step,
        before: Option<&Run>,
        after: &Run,
        (now, lag, _): At,
    ) {
        let (word, edited) = match step {
            Step::Say(word) | Step::SayAndStart(_, _, word) => (word, false),
            Step::Edit(word) => (word, true),
            Step::Extend(word, _) => {
                let request = self.requests.get(&word.id).cloned();
                let kept = request.is_some_and(|r| r.hash == word.hash && now < r.deadline);
                let revoked = self.revoked.contains(&word.id);
                let asked = self.is_asked(word);
                let fits = kept && !revoked && lag <= 5_000 && word.lie == Lie::None && asked;
                return self.demand("V1", fits);
            }
            _ => return,
        };
        let Some(request) = self.requests.get(&word.id).cloned() else {
            return self.demand("V1", false);
        };
        let about = if edited { word.hash != request.hash } else { word.hash == request.hash };
        let void = word.yes && self.revoked.contains(&word.id);
        let in_time = now < request.deadline && !void;
        let live = before.is_some_and(Run::is_live);
        let open = before.and_then(|run| run.approval(&word.id)).is_some_and(|(_, a)| a.is_open());
        let clock = !word.yes || lag <= 5_000;
        let about = about && word.nonce == request.nonce;
        let genuine = word.lie == Lie::None && self.is_asked(word) && about && in_time;
        self.demand("V1", genuine && live && open && clock);
        if word.yes && genuine && live && open && clock {
            let subject = cast::subject(word.who);
            self.yes.insert((request.cell, request.seq, word.hash, subject));
        }
        let stored = after.call(request.seq).and_then(Call::approval);
        let said = |vote: &Vote| vote.signed.decision.approver == cast::subject(word.who);
        self.demand(
            "V1",
            stored.is_some_and(|approval| approval.votes.iter().any(said)) || !word.yes,
        );
    }

    fn is_asked(&self, word: &Word) -> bool {
        self.requests.get(&word.id).is_some_and(|request| request.asked.contains(&word.who))
    }
}
