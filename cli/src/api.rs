//! What does a server answer, as far as commands read it?
//!
//! Invariant: a field that a newer server adds is passed over; one that is missing is an error.

use portcullis_proto::call::Status;
use portcullis_proto::decision::{Channel, Verdict};
use portcullis_proto::denial::Denial;
use portcullis_proto::ids::{AgentName, ApprovalId, RunId, Subject, ToolName};
use portcullis_proto::job::{Attendance, Origin, Parent, Payload};
use portcullis_proto::journal::Entry;
use portcullis_proto::request::ApprovalRequest;
use portcullis_proto::run::{Outcome, Reason};
use portcullis_proto::time::Ms;
use serde::Deserialize;

/// A run in a list.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RunRow {
    pub(crate) run_id: RunId,
    pub(crate) phase: String,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) reason: Option<Reason>,
    pub(crate) agent: AgentName,
    pub(crate) origin: Origin,
    pub(crate) created: Ms,
    pub(crate) begun: Option<Ms>,
    pub(crate) ended: Option<Ms>,
    pub(crate) next: Option<Deadline>,
    pub(crate) now: Ms,
}

/// What time does next.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Deadline {
    pub(crate) at: Ms,
    pub(crate) what: String,
}

/// A page of runs.
#[derive(Debug, Deserialize)]
pub(crate) struct RunPage {
    pub(crate) runs: Vec<RunRow>,
    pub(crate) next: Option<String>,
}

/// One run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RunView {
    #[serde(flatten)]
    pub(crate) row: RunRow,
    pub(crate) attendance: Attendance,
    pub(crate) hard_cap: Ms,
    pub(crate) input: Payload,
    pub(crate) output: Option<Payload>,
    pub(crate) called_by: Option<Parent>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) calls: Vec<CallView>,
    pub(crate) history: Vec<Entry>,
    pub(crate) history_earlier: u64,
}

/// One call of a run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CallView {
    pub(crate) seq: u32,
    pub(crate) tool: ToolName,
    pub(crate) args: Payload,
    pub(crate) gate: String,
    pub(crate) progress: String,
    pub(crate) denial: Option<Denial>,
    pub(crate) child: Option<RunId>,
    pub(crate) status: Option<Status>,
    pub(crate) result: Option<Payload>,
}

/// One open wait.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Wait {
    pub(crate) run_id: RunId,
    pub(crate) agent: AgentName,
    #[serde(rename = "for")]
    pub(crate) what: String,
    pub(crate) who: String,
    pub(crate) call: Option<u32>,
    pub(crate) approval_id: Option<ApprovalId>,
    pub(crate) since: Option<Ms>,
    pub(crate) ends_at: Ms,
    pub(crate) ends_how: String,
}

/// Every open wait.
#[derive(Debug, Deserialize)]
pub(crate) struct Waits {
    pub(crate) waits: Vec<Wait>,
    pub(crate) more: bool,
}

/// A request for a decision.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ApprovalView {
    #[serde(flatten)]
    pub(crate) request: ApprovalRequest,
    pub(crate) state: String,
    pub(crate) seconds_left: f64,
    pub(crate) eligible: Vec<Subject>,
    pub(crate) votes: Vec<Vote>,
    pub(crate) use_by: Option<Ms>,
    pub(crate) denial: Option<Denial>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Vote {
    pub(crate) by: Subject,
    pub(crate) verdict: Verdict,
    pub(crate) channel: Channel,
    pub(crate) at: Ms,
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct OpenApprovals {
    pub(crate) approvals: Vec<ApprovalView>,
}

/// The answer to a decision.
#[derive(Debug, Deserialize)]
pub(crate) struct Decided {
    pub(crate) already: bool,
    #[serde(flatten)]
    pub(crate) approval: ApprovalView,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Started {
    pub(crate) run_id: RunId,
    pub(crate) duplicate: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Cancelled {
    pub(crate) phase: String,
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Reminder {
    pub(crate) name: String,
    pub(crate) agent: AgentName,
    pub(crate) rule: serde_json::Value,
    pub(crate) armed: bool,
    pub(crate) next_fire: Option<Ms>,
    pub(crate) last_run: Option<RunId>,
    pub(crate) fired: u64,
    pub(crate) skipped: u64,
    pub(crate) missed: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Reminders {
    pub(crate) reminders: Vec<Reminder>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Webhook {
    pub(crate) path: String,
    pub(crate) agent: AgentName,
    pub(crate) scheme: String,
    pub(crate) body_bytes_max: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Webhooks {
    pub(crate) webhooks: Vec<Webhook>,
}

/// `{"error": {code, message, where?, mend?}}`
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) error: RefusalInner,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RefusalInner {
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(rename = "where")]
    pub(crate) place: Option<String>,
    pub(crate) mend: Option<String>,
}

/// A payload in one line.
pub(crate) fn payload(payload: &Payload) -> String {
    match payload {
        Payload::Inline(value) => value.to_string(),
        Payload::Stored { digest, bytes } => format!("({bytes} bytes, sha256 {digest})"),
    }
}
