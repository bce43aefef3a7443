//! What does a person get to see of a run?
//!
//! Authority: none; pure functions of a run as time has decided it (`effective`).
//! Invariant: times are Unix milliseconds by the store's clock, and every open wait says when it
//! ends by itself.

mod approval;
mod deadlines;
mod waits;

use portcullis_engine::record::Record;
use portcullis_proto::call::{Call, Gate, Progress, SideEffect, Status};
use portcullis_proto::denial::Denial;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{AgentName, RunId, Tenant, ToolName};
use portcullis_proto::job::{Attendance, Limits, Origin, Parent, Payload, Trace};
use portcullis_proto::journal::Entry;
use portcullis_proto::run::{Outcome, Reason, Run};
use portcullis_proto::time::Ms;
use serde::Serialize;

pub(crate) use approval::ApprovalView;
pub(crate) use deadlines::{Deadline, deadlines};
pub(crate) use waits::{Wait, waits};

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RunRow {
    pub(crate) run_id: RunId,
    pub(crate) phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<Reason>,
    pub(crate) agent: AgentName,
    pub(crate) tenant: Tenant,
    pub(crate) origin: Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<RunId>,
    pub(crate) created: Ms,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) begun: Option<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Ms>,
    /// What time does next, and when. Absent: nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<Deadline>,
    /// The store's time of this answer.
    pub(crate) now: Ms,
}

/// A run with everything that is known about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RunView {
    #[serde(flatten)]
    pub(crate) row: RunRow,
    pub(crate) attendance: Attendance,
    pub(crate) limits: Limits,
    pub(crate) start_by: Ms,
    pub(crate) hard_cap: Ms,
    pub(crate) attempts: u8,
    pub(crate) turn: u32,
    pub(crate) input: Payload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) called_by: Option<Parent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<Trace>,
    pub(crate) waits: Vec<Wait>,
    /// All deadlines that hold now, earliest first.
    pub(crate) deadlines: Vec<Deadline>,
    pub(crate) calls: Vec<CallView>,
    /// The newest entries of its journal, oldest first.
    pub(crate) history: Vec<Entry>,
    /// How many entries came before those.
    pub(crate) history_earlier: u32,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CallView {
    pub(crate) seq: u32,
    pub(crate) turn: u32,
    pub(crate) tool: ToolName,
    pub(crate) args: Payload,
    pub(crate) args_hash: Digest,
    pub(crate) effect: SideEffect,
    /// `allowed`, `asked` or `refused`.
    pub(crate) gate: &'static str,
    /// `planned`, `started`, `spawned` or `finished`.
    pub(crate) progress: &'static str,
    /// Executions begun.
    pub(crate) tries: u8,
    /// Why it will never run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) denial: Option<Denial>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<ApprovalView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished: Option<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Payload>,
}

impl RunRow {
    pub(crate) fn of(run: &Run, now: Ms) -> Self {
        let ended = run.ended();
        Self {
            run_id: run.id.clone(),
            phase: run.phase.name(),
            outcome: ended.map(|ended| ended.outcome),
            reason: ended.map(|ended| ended.reason.clone()),
            agent: run.job.agent.clone(),
            tenant: run.job.tenant.clone(),
            origin: run.job.origin.clone(),
            parent: run.job.parent.as_ref().map(|parent| parent.run.clone()),
            created: run.created,
            begun: run.begun,
            ended: ended.map(|ended| ended.at),
            next: deadlines(run).into_iter().next(),
            now,
        }
    }
}

impl RunView {
    /// `run` is what time has made of the record.
    pub(crate) fn of(run: &Run, record: &Record, now: Ms) -> Self {
        Self {
            row: RunRow::of(run, now),
            attendance: run.job.attendance.clone(),
            limits: run.job.limits,
            start_by: run.job.start_by,
            hard_cap: run.hard_cap,
            attempts: run.attempts,
            turn: run.turn,
            input: run.job.input.clone(),
            output: run.ended().and_then(|ended| ended.output.clone()),
            called_by: run.job.parent.clone(),
            trace: run.job.trace.clone(),
            waits: waits(run),
            deadlines: deadlines(run),
            calls: run.calls.iter().map(|call| CallView::of(run, call, now)).collect(),
            history: record.history.clone(),
            history_earlier: record.earlier,
        }
    }
}

impl CallView {
    fn of(run: &Run, call: &Call, now: Ms) -> Self {
        let gate = match &call.gate {
            Gate::Allowed => "allowed",
            Gate::Asked(_) => "asked",
            Gate::Refused(_) => "refused",
        };
        let mut view = Self {
            seq: call.seq,
            turn: call.turn,
            tool: call.tool.clone(),
            args: call.args.clone(),
            args_hash: call.args_hash,
            effect: call.traits.effect,
            gate,
            progress: "planned",
            tries: call.tries,
            denial: call.refusal().cloned(),
            approval: call.approval().and_then(|asked| ApprovalView::of(run, &asked.id, now)),
            child: None,
            started: None,
            finished: None,
            status: None,
            result: None,
        };
        match &call.progress {
            Progress::Planned => {}
            Progress::Started { at } => {
                (view.progress, view.started) = ("started", Some(*at));
            }
            Progress::Spawned { child, .. } => {
                (view.progress, view.child) = ("spawned", Some(child.clone()));
            }
            Progress::Finished { at, status, result } => {
                (view.progress, view.finished) = ("finished", Some(*at));
                (view.status, view.result) = (Some(*status), Some(result.clone()));
            }
        }
        view
    }
}
