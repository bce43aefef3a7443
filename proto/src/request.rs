//! What an approver gets to see: the message on the approval topic, and the same thing over HTTP.
//!
//! Authority: the run's record; this is a copy of one revision of one request.
//! Invariant: it holds everything that a decision must repeat (id, nonce, digest), so that an
//! approver service needs no other source.

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::call::Call;
use crate::digest::Digest;
use crate::ids::{AgentName, ApprovalId, Nonce, PoolName, RunId, Tenant, ToolName};
use crate::job::{Origin, Payload};
use crate::policy::Risk;
use crate::run::Run;
use crate::time::Ms;

/// The request, version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ApprovalRequest {
    /// Always 1.
    pub v: u32,
    pub approval_id: ApprovalId,
    /// Screens keep the highest revision of an id.
    pub rev: u32,
    /// To be repeated in the decision.
    pub nonce: Nonce,
    /// To be repeated in the decision: what exactly is decided.
    pub args_hash: Digest,
    pub tenant: Tenant,
    pub pool: PoolName,
    pub risk: Risk,
    /// How many approvers must agree.
    pub need: u8,
    pub tool: ToolName,
    /// The call's arguments; `stored` when they are too long for a message.
    pub args: Payload,
    pub run_id: RunId,
    pub agent: AgentName,
    pub origin: Origin,
    /// How many runs stand above the one that asks.
    pub depth: u8,
    /// The request that this one takes the place of: an approver changed the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ApprovalId>,
    /// An earlier execution of the same call whose outcome nobody knows.
    pub previous_attempt_unknown: bool,
    pub asked_at: Ms,
    /// Decide before this, by the store's clock. After it, silence has denied.
    pub deadline: Ms,
}

impl ApprovalRequest {
    /// The current revision of a call's request, if there is one.
    #[must_use]
    pub fn of(run: &Run, call: &Call, approval: &Approval) -> Self {
        let unknown = call.tries > 0
            || run.calls.iter().any(|other| {
                other.seq != call.seq
                    && other.fingerprint == call.fingerprint
                    && matches!(
                        other.progress,
                        crate::call::Progress::Finished {
                            status: crate::call::Status::Unknown,
                            ..
                        }
                    )
            });
        Self {
            v: 1,
            approval_id: approval.id.clone(),
            rev: approval.rev,
            nonce: approval.nonce,
            args_hash: approval.args_hash,
            tenant: run.job.tenant.clone(),
            pool: approval.pool.clone(),
            risk: approval.risk,
            need: approval.need,
            tool: call.tool.clone(),
            args: call.args.clone(),
            run_id: run.id.clone(),
            agent: run.job.agent.clone(),
            origin: run.job.origin.clone(),
            depth: run.job.depth(),
            replaces: approval.replaces.as_ref().map(|old| old.id.clone()),
            previous_attempt_unknown: unknown,
            asked_at: approval.asked_at,
            deadline: approval.deadline,
        }
    }
}

#[cfg(test)]
mod tests;
