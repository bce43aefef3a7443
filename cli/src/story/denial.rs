//! Why was it denied, in words?

use portcullis_proto::denial::{Denial, DenialCode};

use crate::words::length;

/// The reason, as the end of a sentence.
pub(crate) fn why_denied(denial: &Denial) -> String {
    let pool = denial.pool.as_ref().map_or("its pool".to_owned(), |pool| format!("pool `{pool}`"));
    let waited = denial.waited_ms.map(|ms| format!(" within {}", length(ms))).unwrap_or_default();
    let said = |text: String| match &denial.detail {
        Some(detail) => format!("{text}: {detail}"),
        None => text,
    };
    match denial.code {
        DenialCode::Denied => {
            let who = denial.by.as_ref().map_or("an approver".to_owned(), |by| format!("`{by}`"));
            said(format!("{who} said no"))
        }
        DenialCode::ApprovalTimedOut => format!("nobody in {pool} answered{waited}"),
        DenialCode::NoApprover => said(format!(
            "nobody could be asked: {pool} has no approver with an inbox, and no queue is bound \
             for it"
        )),
        DenialCode::NoTime => {
            "so little time was given, or left of the run, that nobody could have answered"
                .to_owned()
        }
        DenialCode::GrantStale => {
            "it was approved, and did not start before the approval grew stale".to_owned()
        }
        DenialCode::LicenceGone => "an operator deleted the request's licence".to_owned(),
        DenialCode::Withdrawn => said("the request was withdrawn before it was decided".to_owned()),
        DenialCode::QuorumUnreachable => {
            format!("too many of {pool} said no for enough of them to agree")
        }
        DenialCode::ApprovalRequiredUnattended => {
            "somebody would have to agree, nobody attends the run, and `approvals.unattended` is \
             `deny`"
                .to_owned()
        }
        DenialCode::PolicyDenied => said("the policy says no".to_owned()),
        DenialCode::PolicyError => said("the policy could not be worked out".to_owned()),
        DenialCode::OperandDrift => {
            said("what would have run is not what was asked about".to_owned())
        }
        DenialCode::ApprovalStoreUnavailable => {
            said("the record of approvals could not be read".to_owned())
        }
    }
}
