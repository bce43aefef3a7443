//! What does an approver get to see of a request, and how does it stand?

use portcullis_proto::approval::{Delivery, State};
use portcullis_proto::call::Progress;
use portcullis_proto::decision::{Channel, Verdict};
use portcullis_proto::denial::Denial;
use portcullis_proto::ids::{ApprovalId, Subject};
use portcullis_proto::job::Payload;
use portcullis_proto::request::ApprovalRequest;
use portcullis_proto::run::Run;
use portcullis_proto::time::Ms;
use serde::Serialize;

/// The request as it is published, and what has come of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ApprovalView {
    #[serde(flatten)]
    request: ApprovalRequest,
    /// `requested`, `approved`, `used` or `refused`.
    pub(crate) state: &'static str,
    /// Until silence denies; zero once it is decided.
    pub(crate) seconds_left: f64,
    /// How the request reached people: `unsent`, `published` or `inbox_only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<&'static str>,
    /// Who may decide.
    eligible: Vec<Subject>,
    pub(crate) votes: Vec<VoteView>,
    /// An approved call must start before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    use_by: Option<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) denial: Option<Denial>,
    /// The store's time of this answer.
    now: Ms,
}

/// One counted vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct VoteView {
    by: Subject,
    verdict: Verdict,
    channel: Channel,
    at: Ms,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl ApprovalView {
    /// A request of a run as time has decided it. `None`: the run has no such request.
    pub(crate) fn of(run: &Run, id: &ApprovalId, now: Ms) -> Option<Self> {
        let (call, asked) = run.approval(id)?;
        let (state, delivery, use_by) = match (&asked.state, &call.progress) {
            (State::Requested(delivery), _) => ("requested", Some(delivered(*delivery)), None),
            (State::Approved { use_by, .. }, Progress::Planned) => {
                ("approved", None, Some(*use_by))
            }
            (
                State::Approved { .. },
                Progress::Started { .. } | Progress::Spawned { .. } | Progress::Finished { .. },
            ) => ("used", None, None),
            (State::Refused(_), _) => ("refused", None, None),
        };
        let left_ms = if asked.is_open() { asked.deadline.since(now).max(0) } else { 0 };
        let votes = asked.votes.iter().map(|vote| VoteView {
            by: vote.signed.decision.approver.clone(),
            verdict: vote.signed.decision.verdict,
            channel: vote.signed.decision.channel,
            at: vote.at,
            reason: vote.signed.decision.reason.clone(),
        });
        #[expect(clippy::cast_precision_loss, reason = "at most a week of milliseconds")]
        let seconds_left = left_ms as f64 / 1_000.0;
        Some(Self {
            request: ApprovalRequest::of(run, call, asked),
            state,
            seconds_left,
            delivery,
            eligible: asked.eligible.clone(),
            votes: votes.collect(),
            use_by,
            denial: asked.refusal().cloned(),
            now,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state == "requested"
    }

    pub(crate) const fn args_mut(&mut self) -> &mut Payload {
        &mut self.request.args
    }
}

const fn delivered(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Unsent(_) => "unsent",
        Delivery::Published => "published",
        Delivery::InboxOnly => "inbox_only",
    }
}
