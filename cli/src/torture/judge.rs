//! Were the promises kept? From the ledger and from what the API shows, and from nothing else.
//!
//! Authority: the ledger for what happened, the server for what it says happened.
//! Invariant: what cannot be accounted for counts against the deployment, and a fault that was
//! chosen and never happened proves nothing, so it counts as well.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_proto::decision::Verdict;
use serde_json::{Value, json};

use super::ledger::Effects;
use super::people::{BOUND_MS, Story};
use super::plan::{Plan, name};
use crate::args::Fault;
use crate::output::{Output, Tone};

/// What was counted, and what was done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    runs: u64,
    effects: u64,
    approvals: u64,
    not_accepted: u64,
    unapproved_effects: u64,
    effects_per_approval_max: u64,
    overdue_runs: u64,
    lost_triggers: u64,
    forged_decisions: u64,
    injected: BTreeMap<Fault, u64>,
}

impl Report {
    pub(super) fn of(
        stories: &[Story],
        effects: &Effects,
        plan: &Plan,
        done: &[(Fault, u64)],
    ) -> Self {
        let mut report = Self { unapproved_effects: effects.unreadable, ..Self::default() };
        report.injected = plan.faults().map(|fault| (fault, 0)).collect();
        let told = stories.iter().flat_map(|story| &story.injected).map(|(fault, n)| (*fault, *n));
        for (fault, times) in told.chain(done.iter().copied()) {
            if let Some(so_far) = report.injected.get_mut(&fault) {
                *so_far += times;
            }
        }
        let mut ours = BTreeSet::new();
        for story in stories {
            report.add(story, effects, &mut ours);
        }
        let all = effects.by_call.iter();
        let strange = all.filter(|((run, _), _)| !ours.contains(run)).map(|(_, times)| times);
        report.unapproved_effects += strange.sum::<u64>();
        report.effects = effects.by_call.values().sum::<u64>() + effects.unreadable;
        let most = effects.by_call.values().chain(effects.by_key.values()).max();
        report.effects_per_approval_max = most.copied().unwrap_or_default();
        report
    }

    fn add(&mut self, story: &Story, effects: &Effects, ours: &mut BTreeSet<String>) {
        let Some(run) = &story.run else {
            self.not_accepted += 1;
            return;
        };
        self.runs += 1;
        self.forged_decisions += story.taken;
        ours.insert(run.to_string());
        let Some(view) = &story.view else {
            self.lost_triggers += 1;
            return;
        };
        let ms = |name: &str| view[name].as_i64();
        let in_time = match (ms("ended"), ms("hard_cap")) {
            (Some(ended), Some(cap)) => ended <= cap + BOUND_MS,
            (None, _) | (_, None) => false,
        };
        self.overdue_runs += u64::from(!in_time);
        let mut approved = BTreeSet::new();
        for call in view["calls"].as_array().into_iter().flatten() {
            let approval = &call["approval"];
            for vote in approval["votes"].as_array().into_iter().flatten() {
                let genuine = story.manner.genuine().map(|verdict| json!(verdict));
                let is_genuine = genuine.as_ref() == Some(&vote["verdict"]);
                self.forged_decisions += u64::from(!is_genuine);
                let seq = call["seq"].as_u64().and_then(|seq| u32::try_from(seq).ok());
                if is_genuine && is_yes_in_time(vote, approval) {
                    approved.extend(seq);
                }
            }
        }
        self.approvals += u64::try_from(approved.len()).unwrap_or_default();
        let calls = effects.by_call.range((run.to_string(), 0)..=(run.to_string(), u32::MAX));
        let unapproved = calls.filter(|((_, seq), _)| !approved.contains(seq));
        self.unapproved_effects += unapproved.map(|(_, times)| times).sum::<u64>();
    }

    /// What is promised, what was found, and whether that is kept.
    fn promises(&self) -> Vec<(String, u64, &'static str, bool)> {
        let none = |what: &str, found: u64| (what.to_owned(), found, "0", found == 0);
        let most = self.effects_per_approval_max;
        let mut rows = vec![
            none("effects without a valid yes in time", self.unapproved_effects),
            ("effects of one approval, at most".to_owned(), most, "≤ 1", most <= 1),
            none("runs not ended by their cap", self.overdue_runs),
            none("accepted runs lost", self.lost_triggers),
            none("forged or late decisions that counted", self.forged_decisions),
            none("starts that were never accepted", self.not_accepted),
            ("runs".to_owned(), self.runs, "≥ 1", 0 < self.runs),
            ("effects".to_owned(), self.effects, "≥ 1", 0 < self.effects),
        ];
        rows.extend(self.injected.iter().map(|(fault, times)| {
            (format!("injected: {}", name(*fault)), *times, "≥ 1", 0 < *times)
        }));
        rows
    }

    pub(super) fn holds(&self) -> bool {
        self.promises().iter().all(|(.., holds)| *holds)
    }

    pub(super) fn to_json(&self) -> Value {
        let injected: BTreeMap<&str, u64> =
            self.injected.iter().map(|(fault, times)| (name(*fault), *times)).collect();
        json!({
            "holds": self.holds(), "runs": self.runs, "effects": self.effects,
            "approvals": self.approvals, "not_accepted": self.not_accepted,
            "unapproved_effects": self.unapproved_effects,
            "effects_per_approval_max": self.effects_per_approval_max,
            "overdue_runs": self.overdue_runs, "lost_triggers": self.lost_triggers,
            "forged_decisions": self.forged_decisions, "injected": injected,
        })
    }

    pub(super) fn tell(&self, output: Output) {
        let rows = self.promises().into_iter().map(|(what, found, wanted, holds)| {
            let (tone, word) = if holds { (Tone::Good, "holds") } else { (Tone::Bad, "BROKEN") };
            vec![
                (Tone::Plain, what),
                (Tone::Plain, found.to_string()),
                (Tone::Quiet, wanted.to_owned()),
                (tone, word.to_owned()),
            ]
        });
        output.table(&["COUNTED", "FOUND", "PROMISED", ""], &rows.collect::<Vec<_>>(), "nothing");
    }
}

fn is_yes_in_time(vote: &Value, approval: &Value) -> bool {
    let in_time = match (vote["at"].as_i64(), approval["deadline"].as_i64()) {
        (Some(at), Some(deadline)) => at < deadline,
        (None, _) | (_, None) => false,
    };
    in_time && vote["verdict"] == json!(Verdict::Approve)
}

#[cfg(test)]
mod tests;
