//! Why is this run where it is? Told in plain sentences, from what was committed.
//!
//! Authority: the run's history and its state as time has decided it.
//! Invariant: pure; silence names nobody, and a wait always says when it ends by itself.

mod denial;
mod facts;
#[cfg(test)]
mod tests;

use portcullis_proto::job::{Attendance, Origin};
use portcullis_proto::journal::Fact;
use portcullis_proto::run::Outcome;
use portcullis_proto::time::Ms;

use crate::api::{CallView, RunView, Wait};
use crate::words::{instant, length};

pub(crate) use denial::why_denied;
pub(crate) use facts::sentence;

/// A run's story in three parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Story {
    /// Who asked for it.
    pub(crate) opening: Vec<String>,
    /// What happened, with the time since its start.
    pub(crate) happened: Vec<(i64, String)>,
    /// Whose turn it is and when that ends, or why it ended.
    pub(crate) now: Vec<String>,
}

/// Tells it.
pub(crate) fn tell(run: &RunView) -> Story {
    let since = |at: Ms| at.since(run.row.created).max(0);
    let mut happened: Vec<(i64, String)> = run
        .history
        .iter()
        .filter_map(|entry| Some((since(entry.at), sentence(run, entry)?)))
        .collect();
    happened.extend(decided_by_time(run).map(|(at, text)| (since(at), text)));
    Story { opening: opening(run), happened, now: now(run) }
}

fn opening(run: &RunView) -> Vec<String> {
    let by = match (&run.called_by, &run.row.origin) {
        (Some(parent), _) => format!("call {} of run {} started it", parent.call, parent.run),
        (None, Origin::Reminder { name, instant: at }) => {
            format!("the reminder `{name}` started it, for {}", instant(*at))
        }
        (None, Origin::Webhook { route }) => format!("the webhook /hooks/{route} started it"),
        (None, Origin::Api) => "it was started through the API".to_owned(),
    };
    let attended = match &run.attendance {
        Attendance::Unattended => "nobody attends it".to_owned(),
        Attendance::Session { approver } => format!("`{approver}` attends it"),
    };
    let mut lines = vec![
        format!("Run {} of agent `{}`.", run.row.run_id, run.row.agent),
        format!("At {} {by}; {attended}.", instant(run.row.created)),
    ];
    if 0 < run.history_earlier {
        lines.push(format!("{} earlier things that happened are left out.", run.history_earlier));
    }
    lines
}

/// Denials that time has decided and nobody has recorded yet.
fn decided_by_time(run: &RunView) -> impl Iterator<Item = (Ms, String)> {
    let recorded = |call: &CallView| {
        let of_call =
            |fact: &Fact| matches!(fact, Fact::Denied { call: seq, .. } if *seq == call.seq);
        run.history.iter().any(|entry| of_call(&entry.fact))
    };
    run.calls.iter().filter(move |call| !recorded(call)).filter_map(|call| {
        let denial = call.denial.as_ref()?;
        let why = why_denied(denial);
        Some((denial.at, format!("Call {}, `{}`, is denied: {why}.", call.seq, call.tool)))
    })
}

fn now(run: &RunView) -> Vec<String> {
    if let Some(outcome) = run.row.outcome {
        return ended(run, outcome);
    }
    let mut lines: Vec<String> = run.waits.iter().map(|wait| waiting(run, wait)).collect();
    if run.row.phase == "running" {
        lines.push(running(run));
    }
    let left = run.hard_cap.since(run.row.now);
    lines.push(format!(
        "Whatever happens, it ends by {}, in {}.",
        instant(run.hard_cap),
        length(left)
    ));
    lines
}

fn running(run: &RunView) -> String {
    match run.calls.iter().find(|call| call.progress == "started") {
        Some(call) => format!("A worker runs call {}, `{}`, now.", call.seq, call.tool),
        None => "A worker works on it now.".to_owned(),
    }
}

fn waiting(run: &RunView, wait: &Wait) -> String {
    let left = length(wait.ends_at.since(run.row.now));
    let ends = format!("left alone, {} at {}, in {left}", wait.ends_how, instant(wait.ends_at));
    let who = &wait.who;
    let call = |seq: u32| {
        let tool = run.calls.iter().find(|call| call.seq == seq).map(|call| call.tool.as_str());
        format!("call {seq}, `{}`,", tool.unwrap_or("?"))
    };
    match (wait.what.as_str(), wait.call, &wait.approval_id) {
        ("decision", Some(seq), Some(id)) => format!(
            "It waits for a decision on {} by {who}; {ends}. Decide with `portcullis approvals \
             approve {id}`, or deny.",
            call(seq)
        ),
        ("child", Some(seq), _) => {
            format!("It waits for {who}, which {} started; {ends}.", call(seq))
        }
        ("worker", ..) => format!("It is the turn of {who}; {ends}."),
        _ => format!("It waits for {who}; {ends}."),
    }
}

fn ended(run: &RunView, outcome: Outcome) -> Vec<String> {
    let at = run.row.ended.unwrap_or(run.row.now);
    let lasted = length(at.since(run.row.created));
    let mut lines = vec![format!(
        "It ended as {} at {}, after {lasted}{}.",
        outcome.as_str(),
        instant(at),
        reason(run, outcome)
    )];
    let denied = run.calls.iter().filter_map(|call| Some((call, call.denial.as_ref()?)));
    lines.extend(denied.map(|(call, denial)| {
        let why = why_denied(denial);
        format!("Call {}, `{}`, never ran. denied: {why}.", call.seq, call.tool)
    }));
    if outcome == Outcome::Interrupted {
        lines.push(
            "What was running may have taken effect, or may yet: look before starting it again."
                .to_owned(),
        );
    }
    lines
}

fn reason(run: &RunView, outcome: Outcome) -> String {
    let Some(reason) = &run.row.reason else { return String::new() };
    match (&reason.detail, outcome) {
        (Some(detail), _) => format!(": {} ({detail})", reason.code),
        // The outcome says it all.
        (None, _) if reason.code == outcome.as_str() || reason.code == "done" => String::new(),
        (None, _) => format!(": {}", reason.code),
    }
}
