//! Whom does this run wait for, and when does the wait end by itself?

use portcullis_proto::call::{Call, Progress};
use portcullis_proto::ids::{AgentName, ApprovalId, RunId};
use portcullis_proto::run::{Phase, Run};
use portcullis_proto::time::Ms;
use serde::Serialize;

/// One open wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Wait {
    pub(crate) run_id: RunId,
    pub(crate) agent: AgentName,
    /// `worker`, `decision`, `child` or `time`.
    #[serde(rename = "for")]
    pub(crate) what: &'static str,
    /// Who must act, for people.
    pub(crate) who: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval_id: Option<ApprovalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Ms>,
    /// When it ends by itself, whatever anybody does.
    pub(crate) ends_at: Ms,
    pub(crate) ends_how: &'static str,
}

/// Every open wait of a run, the one that ends first in front.
pub(crate) fn waits(run: &Run) -> Vec<Wait> {
    let mut all = Vec::new();
    let wait = |what, who: String, ends_at: Ms, ends_how| Wait {
        run_id: run.id.clone(),
        agent: run.job.agent.clone(),
        what,
        who,
        call: None,
        approval_id: None,
        child: None,
        since: None,
        ends_at: ends_at.min(run.hard_cap),
        ends_how,
    };
    const TIMED_OUT: &str = "the run ends as timed_out: hard_cap";
    match &run.phase {
        Phase::Queued { .. } if run.begun.is_none() => {
            let how = "the run ends as failed: expired_in_queue";
            let first = wait("worker", "a worker with a free slot".into(), run.job.start_by, how);
            all.push(Wait { since: Some(run.created), ..first });
        }
        Phase::Queued { .. } => {
            all.push(wait("worker", "a worker with a free slot".into(), run.hard_cap, TIMED_OUT));
        }
        Phase::Backoff { until } => {
            let how = "the run is queued again";
            all.push(wait("time", "nobody: it tries again later".into(), *until, how));
        }
        Phase::Running { .. } | Phase::Waiting => {}
        Phase::Ended(_) => return all,
    }
    for call in run.turn_calls().filter(|call| call.is_waiting()) {
        all.push(of_call(call, &wait, TIMED_OUT, run.hard_cap));
    }
    all.sort_by_key(|wait| wait.ends_at);
    all
}

fn of_call(
    call: &Call,
    wait: &impl Fn(&'static str, String, Ms, &'static str) -> Wait,
    capped: &'static str,
    hard_cap: Ms,
) -> Wait {
    let seq = Some(call.seq);
    if let Progress::Spawned { child, .. } = &call.progress {
        let child_wait = wait("child", format!("run {child}"), hard_cap, capped);
        return Wait { call: seq, child: Some(child.clone()), ..child_wait };
    }
    let asked = call.approval().expect("what waits and has no child waits for a decision");
    let names: Vec<_> = asked.eligible.iter().map(ToString::to_string).collect();
    let who = format!("pool {}: {} of {}", asked.pool, asked.need, names.join(", "));
    let how = "the call is denied: approval_timed_out";
    let decision = wait("decision", who, asked.deadline, how);
    let approval_id = Some(asked.id.clone());
    Wait { call: seq, approval_id, since: Some(asked.asked_at), ..decision }
}
