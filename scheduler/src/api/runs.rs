//! `/v1/runs`: start, list, show, cancel.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use portcullis_proto::ids::{AgentName, RunId, Subject, Tenant};
use portcullis_proto::job::Trace;
use portcullis_proto::run::{Outcome, PHASES, Reject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Ctx;
use super::answer::ApiError;
use super::extract::{Id, StrictJson, StrictQuery, header};
use crate::credentials::Caller;
use crate::lists::Place;
use crate::runs::Start;
use crate::view::{RunRow, RunView};

/// Runs on a page, unless asked otherwise, and at most.
const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 500;
/// The longest reason for a cancellation, in bytes.
const REASON_BYTES_MAX: usize = 512;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartBody {
    agent: AgentName,
    #[serde(default)]
    input: Value,
    tenant: Option<Tenant>,
    idempotency_key: Option<String>,
    attended: Option<Attended>,
    start_by_seconds: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attended {
    approver: Subject,
}

#[derive(Debug, Serialize)]
pub(super) struct Started {
    run_id: RunId,
    duplicate: bool,
}

/// `POST /v1/runs`
pub(super) async fn start(
    State(ctx): State<Ctx>,
    caller: Caller,
    headers: HeaderMap,
    StrictJson(body): StrictJson<StartBody>,
) -> Result<(StatusCode, Json<Started>), ApiError> {
    let start = body.with(&headers)?;
    let accepted = ctx.start(start, &caller).await?;
    let started = Started { run_id: accepted.id, duplicate: accepted.duplicate };
    Ok((StatusCode::ACCEPTED, Json(started)))
}

impl StartBody {
    fn with(self, headers: &HeaderMap) -> Result<Start, ApiError> {
        let stated = header(headers, "idempotency-key")?.map(str::to_owned);
        let key = match (self.idempotency_key, stated) {
            (Some(body), Some(header)) if body != header => {
                let message = "the body and the header `Idempotency-Key` differ";
                return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_key", message)
                    .at("idempotency_key")
                    .mend("send one of them"));
            }
            (body, header) => body.or(header),
        };
        let default = || Tenant::new("default").expect("follows the rule for names");
        Ok(Start {
            agent: self.agent,
            input: self.input,
            tenant: self.tenant.unwrap_or_else(default),
            key,
            attended: self.attended.map(|attended| attended.approver),
            start_by_seconds: self.start_by_seconds,
            trace: header(headers, "traceparent")?.and_then(Trace::of_header),
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    phase: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Page {
    runs: Vec<RunRow>,
    /// To be sent as `after` for the next page. Absent: this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// `GET /v1/runs?phase=&limit=&after=`
pub(super) async fn list(
    State(ctx): State<Ctx>,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Json<Page>, ApiError> {
    let bad = |place: &str, message: String| {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_query", message).at(place)
    };
    let phase = match query.phase.as_deref() {
        None => None,
        Some(asked) => match PHASES.iter().find(|name| **name == asked) {
            Some(name) => Some(*name),
            None => return Err(bad("phase", format!("a phase is one of {}", PHASES.join(", ")))),
        },
    };
    let after = query.after.as_deref().map(str::parse::<Place>).transpose();
    let after = after.map_err(|()| bad("after", "that is no `next` of a page".to_owned()))?;
    let limit = page_size(query.limit, PAGE_DEFAULT, PAGE_MAX)?;
    let (runs, next) = ctx.runs(phase, after.as_ref(), limit).await?;
    Ok(Json(Page { runs, next: next.map(|place| place.to_string()) }))
}

/// How many entries a page has.
pub(super) fn page_size(
    asked: Option<usize>,
    default: usize,
    max: usize,
) -> Result<usize, ApiError> {
    match asked {
        None => Ok(default),
        Some(size) if (1..=max).contains(&size) => Ok(size),
        Some(_) => {
            let message = format!("`limit` must be 1 to {max}");
            Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_query", message).at("limit"))
        }
    }
}

fn no_such_run() -> ApiError {
    let unknown = Reject::Unknown;
    ApiError::new(StatusCode::NOT_FOUND, unknown.code(), unknown.to_string())
}

/// `GET /v1/runs/{id}`
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Id(id): Id<RunId>,
) -> Result<Json<RunView>, ApiError> {
    ctx.show_run(&id).await?.map(Json).ok_or_else(no_such_run)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelBody {
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Cancelled {
    run_id: RunId,
    phase: &'static str,
    outcome: Option<Outcome>,
}

/// `POST /v1/runs/{id}/cancel`
pub(super) async fn cancel(
    State(ctx): State<Ctx>,
    caller: Caller,
    Id(id): Id<RunId>,
    StrictJson(body): StrictJson<CancelBody>,
) -> Result<Json<Cancelled>, ApiError> {
    if body.reason.as_ref().is_some_and(|reason| REASON_BYTES_MAX < reason.len()) {
        let message = format!("a reason has at most {REASON_BYTES_MAX} bytes");
        return Err(
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_reason", message).at("reason")
        );
    }
    let run = ctx.cancel(&id, &caller, body.reason.as_deref()).await?;
    let outcome = run.ended().map(|ended| ended.outcome);
    Ok(Json(Cancelled { run_id: run.id, phase: run.phase.name(), outcome }))
}
