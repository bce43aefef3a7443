//! `/v1/approvals`: what waits for a decision, and deciding it.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use portcullis_proto::decision::{Channel, REASON_BYTES_MAX, Verdict};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, Nonce, PoolName};
use serde::{Deserialize, Serialize};

use super::Ctx;
use super::answer::ApiError;
use super::extract::{Id, StrictJson, StrictQuery, header};
use super::runs::page_size;
use crate::approvals::Ballot;
use crate::credentials::Proven;
use crate::view::ApprovalView;

/// Requests in one answer, unless asked otherwise, and at most.
const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    pool: Option<PoolName>,
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct Open {
    approvals: Vec<ApprovalView>,
}

/// `GET /v1/approvals?pool=&limit=`
pub(super) async fn list(
    State(ctx): State<Ctx>,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Json<Open>, ApiError> {
    let limit = page_size(query.limit, LIST_DEFAULT, LIST_MAX)?;
    let approvals = ctx.open_approvals(query.pool.as_ref(), limit).await?;
    Ok(Json(Open { approvals }))
}

/// `GET /v1/approvals/{id}`
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Id(id): Id<ApprovalId>,
) -> Result<Json<ApprovalView>, ApiError> {
    Ok(Json(ctx.approval(&id).await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionBody {
    verdict: Verdict,
    nonce: Nonce,
    args_hash: Digest,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The same approver had decided so before: nothing changed.
    already: bool,
    #[serde(flatten)]
    approval: ApprovalView,
}

/// `POST /v1/approvals/{id}/decision`
pub(super) async fn decide(
    State(ctx): State<Ctx>,
    approver: Proven,
    Id(id): Id<ApprovalId>,
    headers: HeaderMap,
    StrictJson(body): StrictJson<DecisionBody>,
) -> Result<Json<Answer>, ApiError> {
    let ballot = body.through(channel(&headers)?)?;
    let decided = ctx.decide(&id, &approver, ballot).await?;
    Ok(Json(Answer { already: decided.already, approval: decided.view }))
}

impl DecisionBody {
    fn through(self, channel: Channel) -> Result<Ballot, ApiError> {
        let Self { verdict, nonce, args_hash, reason } = self;
        if reason.as_ref().is_some_and(|reason| REASON_BYTES_MAX < reason.len()) {
            let message = format!("a reason has at most {REASON_BYTES_MAX} bytes");
            return Err(
                ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_reason", message).at("reason")
            );
        }
        Ok(Ballot { verdict, nonce, args_hash, channel, reason })
    }
}

/// Which of our own programs the decision came through: a record, never a criterion.
fn channel(headers: &HeaderMap) -> Result<Channel, ApiError> {
    match header(headers, "portcullis-channel")? {
        None | Some("http") => Ok(Channel::Http),
        Some("cli") => Ok(Channel::Cli),
        Some("console") => Ok(Channel::Console),
        Some(_) => {
            let message = "the channel is one of http, cli, console";
            Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_channel", message)
                .at("Portcullis-Channel"))
        }
    }
}
