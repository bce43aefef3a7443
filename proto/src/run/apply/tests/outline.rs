//! One line that says all of a change, so that a table row can check all of it.
//!
//! `phase [calls] | journal | effects | conditions`. Left out when nothing stands there; a window
//! that ends at the hard cap, and a soft commit, are not mentioned.

use crate::approval::{Delivery, State};
use crate::call::{Call, Gate, Progress};
use crate::run::{Change, Effect, Phase, Run};
use crate::time::Ms;

pub(super) fn phase(run: &Run) -> String {
    match &run.phase {
        Phase::Ended(ended) => format!("{}({})", ended.outcome.as_str(), ended.reason.code),
        Phase::Queued { lane, .. } => format!("queued:{}", lane.as_str()),
        Phase::Running { .. } | Phase::Waiting | Phase::Backoff { .. } => run.phase.name().into(),
    }
}

fn call(call: &Call) -> String {
    match (&call.progress, &call.gate) {
        (Progress::Planned, Gate::Allowed) => "ready".into(),
        (Progress::Planned, Gate::Refused(denial)) => denial.code.to_string(),
        (Progress::Planned, Gate::Asked(approval)) => match &approval.state {
            State::Requested(Delivery::Unsent(_)) => format!("asked+{}", approval.votes.len()),
            State::Requested(Delivery::Published) => format!("shown+{}", approval.votes.len()),
            State::Requested(Delivery::InboxOnly) => format!("inbox+{}", approval.votes.len()),
            State::Approved { .. } => "approved".into(),
            State::Refused(denial) => format!("{}!", denial.code),
        },
        (Progress::Started { .. }, _) => "started".into(),
        (Progress::Spawned { creating: Some(_), .. }, _) => "spawned".into(),
        (Progress::Spawned { creating: None, .. }, _) => "child".into(),
        (Progress::Finished { status, .. }, _) => format!("{status:?}").to_lowercase(),
    }
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Wake(lane) => format!("wake:{}", lane.as_str()),
        Effect::PublishRequest(id) => format!("publish:{}", id.call()),
        Effect::CreateChild(seq) => format!("create:{seq}"),
        Effect::CheckChild(seq) => format!("check:{seq}"),
        Effect::NotifyParent => "notify".into(),
        Effect::CancelChild(seq) => format!("cancel:{seq}"),
    }
}

/// The name of a moment that a window ends at.
fn moment(at: Ms, before: &Run, next: &Run) -> String {
    let (mut lease, mut step) = (None, None);
    if let Phase::Running { lease_until, step_deadline, .. } = before.phase {
        (lease, step) = (Some(lease_until), Some(step_deadline));
    }
    let asked = before.calls.iter().filter_map(Call::approval);
    let deadline = asked.clone().any(|approval| approval.deadline == at);
    let use_by =
        asked.clone().any(|a| matches!(a.state, State::Approved { use_by, .. } if use_by == at));
    match at {
        _ if at == before.hard_cap || at == next.hard_cap => String::new(),
        _ if Some(at) == step => " <step".into(),
        _ if Some(at) == lease => " <lease".into(),
        _ if deadline => " <deadline".into(),
        _ if use_by => " <use_by".into(),
        _ if at == before.job.start_by => " <start_by".into(),
        Ms(other) => format!(" <{other}"),
    }
}

pub(super) fn outline(before: Option<&Run>, change: &Change) -> String {
    let next = &change.next;
    let words = |list: Vec<String>| list.join(" ");
    let fact = |fact: &crate::journal::Fact| {
        serde_json::to_value(fact).unwrap()["what"].as_str().unwrap().to_owned()
    };
    let calls = words(next.calls.iter().map(call).collect());
    let journal = words(change.journal.iter().map(|entry| fact(&entry.fact)).collect());
    let effects = words(change.effects.iter().map(effect).collect());
    let mut conditions = if change.is_firm() { "firm".to_owned() } else { String::new() };
    conditions +=
        &change.not_after.map_or(" <ever".into(), |at| moment(at, before.unwrap_or(next), next));
    if change.need_steady_clock {
        conditions += " steady";
    }
    if let Some(epoch) = change.policy_epoch {
        conditions += &format!(" epoch={epoch}");
    }
    for (sign, list) in [("?", &change.require), ("-", &change.licences_del)] {
        for id in list {
            conditions += &format!(" {sign}{}", id.call());
        }
    }
    for (id, _) in &change.licences_set {
        conditions += &format!(" +{}", id.call());
    }
    assert_eq!(change.not_before, None, "nothing waits for a commit");
    let head = if calls.is_empty() { phase(next) } else { format!("{} [{calls}]", phase(next)) };
    let parts = [head, journal, effects, conditions.trim().to_owned()];
    parts.join(" | ").trim_end_matches([' ', '|']).to_owned()
}
