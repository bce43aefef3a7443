//! Why a call was not allowed: every way to say no, each with its own code.
//!
//! Authority: the state machine and the gate; nobody else makes a denial.
//! Invariant: silence names no person. `by` is set only where somebody really decided.

use serde::{Deserialize, Serialize};

use crate::ids::{PoolName, Subject};
use crate::time::Ms;

/// The reason codes of denials. Complete: operators, agents and tests see nothing else.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DenialCode {
    /// A person or service said no.
    Denied,
    /// The deadline passed in silence.
    ApprovalTimedOut,
    /// Nobody could ever have seen the request.
    NoApprover,
    /// So little of the run's cap was left that nobody could have answered.
    NoTime,
    /// Approved, but not started before the approval grew stale.
    GrantStale,
    /// The licence key was deleted by hand.
    LicenceGone,
    /// The run ended, or the policy epoch changed, before the call started.
    Withdrawn,
    /// Too many of those asked said no for the quorum to be reached.
    QuorumUnreachable,
    /// The run is unattended and the installation refuses instead of asking.
    ApprovalRequiredUnattended,
    /// A rule says no, or no rule knows the tool.
    PolicyDenied,
    /// The policy could not be worked out: a failing rule, a hung or crashed reviewer.
    PolicyError,
    /// What would run is no longer what was asked about.
    OperandDrift,
    /// The record of approvals cannot be read.
    ApprovalStoreUnavailable,
}

impl DenialCode {
    /// Every code there is.
    pub const ALL: [Self; 13] = [
        Self::Denied,
        Self::ApprovalTimedOut,
        Self::NoApprover,
        Self::NoTime,
        Self::GrantStale,
        Self::LicenceGone,
        Self::Withdrawn,
        Self::QuorumUnreachable,
        Self::ApprovalRequiredUnattended,
        Self::PolicyDenied,
        Self::PolicyError,
        Self::OperandDrift,
        Self::ApprovalStoreUnavailable,
    ];

    /// The code as it is written everywhere.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::ApprovalTimedOut => "approval_timed_out",
            Self::NoApprover => "no_approver",
            Self::NoTime => "no_time",
            Self::GrantStale => "grant_stale",
            Self::LicenceGone => "licence_gone",
            Self::Withdrawn => "withdrawn",
            Self::QuorumUnreachable => "quorum_unreachable",
            Self::ApprovalRequiredUnattended => "approval_required_unattended",
            Self::PolicyDenied => "policy_denied",
            Self::PolicyError => "policy_error",
            Self::OperandDrift => "operand_drift",
            Self::ApprovalStoreUnavailable => "approval_store_unavailable",
        }
    }
}

impl std::fmt::Display for DenialCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One no, with what an operator asks next.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Denial {
    pub code: DenialCode,
    pub at: Ms,
    /// Who decided; nobody, when nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Subject>,
    /// Which approvers were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// How long they were waited for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<i64>,
    /// Bounded text: the approver's words, or the rule's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Denial {
    /// A no that nobody in particular said.
    #[must_use]
    pub const fn of(code: DenialCode, at: Ms) -> Self {
        Self { code, at, by: None, pool: None, waited_ms: None, detail: None }
    }

    #[must_use]
    pub fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_written_one_way() {
        for code in DenialCode::ALL {
            let json = serde_json::to_value(code).unwrap();
            assert_eq!(json, serde_json::json!(code.as_str()));
        }
    }
}
