//! One log line per state edge, once it is committed.
//!
//! Authority: the committed journal. Ids and codes only: no payload, no reason text of a person.

use portcullis_proto::denial::DenialCode;
use portcullis_proto::ids::RunId;
use portcullis_proto::journal::{Entry, Fact};
use tracing::{debug, info, warn};

/// Logs what a commit made of a run: refusals as warnings, ends as information, the rest as debug.
pub(crate) fn narrate(run: &RunId, journal: &[Entry]) {
    for entry in journal {
        match &entry.fact {
            Fact::Denied { call, tool, denial } => {
                let pool = denial.pool.as_ref().map(ToString::to_string).unwrap_or_default();
                let waited_ms = denial.waited_ms.unwrap_or(0);
                let code = denial.code.as_str();
                let silence = denial.code == DenialCode::ApprovalTimedOut;
                let said = if silence { "denied: nobody answered" } else { "denied" };
                warn!(run.id = %run, call, %tool, code, pool, waited_ms, said);
            }
            Fact::Ended { outcome, code, .. } => {
                info!(run.id = %run, outcome = outcome.as_str(), code, "ended");
            }
            Fact::Asked { approval, tool, pool, deadline } => {
                info!(run.id = %run, approval.id = %approval, %tool, %pool, %deadline, "asked");
            }
            Fact::Approved { approval, use_by } => {
                info!(run.id = %run, approval.id = %approval, %use_by, "approved");
            }
            Fact::Accepted { agent, origin } => info!(run.id = %run, %agent, origin, "accepted"),
            fact @ (Fact::Claimed { .. }
            | Fact::Planned { .. }
            | Fact::Published { .. }
            | Fact::Unroutable { .. }
            | Fact::Voted { .. }
            | Fact::Extended { .. }
            | Fact::Escalated { .. }
            | Fact::Edited { .. }
            | Fact::Started { .. }
            | Fact::Spawned { .. }
            | Fact::Finished { .. }
            | Fact::Retried { .. }
            | Fact::Parked { .. }
            | Fact::Roused
            | Fact::Released { .. }
            | Fact::Lapsed
            | Fact::CancelAsked { .. }) => debug!(run.id = %run, ?fact, "step"),
        }
    }
}
