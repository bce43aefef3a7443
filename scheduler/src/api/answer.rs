//! How is «no» said over HTTP?
//!
//! Invariant: every answer that is no success has the same shape, a stable code, and what to do
//! about it where the caller can do something. What went wrong on our side is logged once, here.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use portcullis_engine::StepError;
use portcullis_engine::ports::{CommitError, StoreError};
use portcullis_proto::ids::AgentName;
use portcullis_proto::run::Reject;
use portcullis_proto::time::Ms;
use serde::Serialize;
use tracing::{error, warn};

use crate::approvals::NotDecided;
use crate::credentials::Unproven;
use crate::offer::OfferError;
use crate::read::Unread;
use crate::runs::NotStarted;
use crate::webhooks::NotReceived;

/// When to come again while the store or a slot is missing, in seconds.
const RETRY_AFTER_SECONDS: u16 = 2;

/// An answer that is no success: `{"error": {code, message, where?, mend?}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    message: String,
    place: Option<String>,
    mend: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<&'a str>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), place: None, mend: None }
    }

    /// Our mistake, about which a caller learns nothing.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "something went wrong here")
    }

    /// The field, header or parameter that is wrong.
    pub(crate) fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// What the caller can do about it.
    pub(crate) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    fn later(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).mend("try again shortly")
    }

    /// Nothing was refused on its merits: there is no room for it just now.
    pub(crate) fn busy(max: usize, what: &str) -> Self {
        Self::later("busy", format!("{max} {what} are under way already"))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Body {
            error: Inner {
                code: self.code,
                message: &self.message,
                place: self.place.as_deref(),
                mend: self.mend.as_deref(),
            },
        };
        let mut answer = (self.status, Json(body)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"portcullis\"");
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        answer
    }
}

impl From<StoreError> for ApiError {
    fn from(why: StoreError) -> Self {
        Self::from(StepError::Store(why))
    }
}

impl From<StepError> for ApiError {
    fn from(why: StepError) -> Self {
        match why {
            StepError::Rejected { reject, .. } => rejected(&reject),
            StepError::Contended => Self::later("contended", why.to_string()),
            StepError::Record(why) => {
                error!(%why, "W033 a record cannot be read");
                Self::internal()
            }
            StepError::Store(why) => of_store(&why),
            StepError::Commit(why) => of_commit(&why),
        }
    }
}

fn of_store(why: &StoreError) -> ApiError {
    match why {
        StoreError::Unavailable(_) => {
            warn!(%why, "request not answered");
            ApiError::later("store_unavailable", "the store cannot be reached")
        }
        StoreError::Epoch => swapped(),
        StoreError::Corrupt(_) => {
            error!(%why, "W033 a record cannot be read");
            ApiError::internal()
        }
        StoreError::TooLarge { .. } => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why.to_string())
        }
    }
}

fn swapped() -> ApiError {
    error!("W034 the store was emptied or swapped");
    let message = "the store was emptied or swapped under this process: everything halts";
    ApiError::later("store_swapped", message).mend("ask the operator")
}

fn of_commit(why: &CommitError) -> ApiError {
    match why {
        CommitError::Unavailable(_) => {
            warn!(%why, "request not answered");
            ApiError::later("store_unavailable", "the store cannot be reached")
        }
        CommitError::NotDurable => {
            warn!(%why, "request not answered");
            ApiError::later("not_durable", "it was written, but could still be lost: no answer yet")
                .mend("send the same again: it is answered once it is safe")
        }
        CommitError::Unknown(_) => {
            warn!(%why, "request not answered");
            ApiError::later("outcome_unknown", "the store's answer was lost")
                .mend("send the same again: you are told what became of it")
        }
        CommitError::Clock { .. } => {
            error!(%why, "W035 the store's clock is not steady");
            ApiError::later("clock_unsteady", "the store's clock is behind: nothing is approved")
        }
        CommitError::Epoch => swapped(),
        CommitError::TooLarge { .. } => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why.to_string())
        }
        CommitError::Conflict { .. }
        | CommitError::Early { .. }
        | CommitError::Late { .. }
        | CommitError::Gone { .. }
        | CommitError::Policy { .. } => ApiError::later("contended", why.to_string()),
    }
}

/// What the rules say no to, as far as it can be asked for over HTTP.
fn rejected(reject: &Reject) -> ApiError {
    let (code, message) = (reject.code(), reject.to_string());
    let error = |status| ApiError::new(status, code, message);
    if let Reject::Late { at } = reject {
        let message = format!("the request expired at {}", instant(*at));
        return ApiError::new(StatusCode::GONE, code, message)
            .mend("it was denied by time; start the run again to be asked again");
    }
    if let Reject::Forged(why) = reject {
        // Over HTTP the signature is the notary's own.
        error!(%why, "W036 the notary's key does not count: add it to the key ring");
        return ApiError::later("notary_not_trusted", "decisions over HTTP do not count here")
            .mend("ask the operator: the notary's public key is not in the key ring");
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others contradict the run's state")]
    match reject {
        Reject::Unknown | Reject::UnknownApproval => error(StatusCode::NOT_FOUND),
        Reject::NotEligible => {
            error(StatusCode::FORBIDDEN).mend("an approver of its pool must decide")
        }
        Reject::WrongNonce => error(StatusCode::UNPROCESSABLE_ENTITY)
            .at("nonce")
            .mend("take it from the request, as it is now"),
        Reject::WrongArgs => error(StatusCode::UNPROCESSABLE_ENTITY)
            .at("args_hash")
            .mend("look at the request again, then decide"),
        _ => error(StatusCode::CONFLICT),
    }
}

/// An instant for people (RFC 3339).
pub(crate) fn instant(at: Ms) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| at.to_string(), |at| at.to_string())
}

fn unknown_agent(name: &AgentName) -> ApiError {
    let message = format!("no agent `{name}` is configured");
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown_agent", message).at("agent")
}

impl From<OfferError> for ApiError {
    fn from(why: OfferError) -> Self {
        match why {
            OfferError::UnknownAgent(name) => unknown_agent(&name),
            OfferError::Step(why) => why.into(),
        }
    }
}

impl From<NotStarted> for ApiError {
    fn from(why: NotStarted) -> Self {
        let message = why.to_string();
        let wrong = |code, place: &str| {
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message.clone()).at(place)
        };
        match why {
            NotStarted::Key => wrong("bad_key", "idempotency_key"),
            NotStarted::StartBy => wrong("bad_start_by", "start_by_seconds"),
            NotStarted::Input(_) => wrong("input_not_canonical", "input"),
            NotStarted::NotThatApprover(_) => {
                Self::new(StatusCode::FORBIDDEN, "not_that_approver", message)
                    .at("attended.approver")
                    .mend("send that approver's token as `Authorization: Bearer <token>`")
            }
            NotStarted::KeyReused => Self::new(StatusCode::CONFLICT, "key_reused", message)
                .at("idempotency_key")
                .mend("use another key for another job"),
            NotStarted::Offer(why) => why.into(),
        }
    }
}

impl From<NotDecided> for ApiError {
    fn from(why: NotDecided) -> Self {
        match why {
            NotDecided::NoNotary => {
                error!("W037 a decision came in over HTTP, and there is no notary key");
                Self::later("no_notary", why.to_string()).mend("ask the operator: set a notary key")
            }
            NotDecided::Step(why) => why.into(),
        }
    }
}

impl From<Unproven> for ApiError {
    fn from(why: Unproven) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, why.code(), why.to_string())
            .at("Authorization")
            .mend("send `Authorization: Bearer <token>`")
    }
}

impl From<Unread> for ApiError {
    fn from(why: Unread) -> Self {
        let status = match why {
            Unread::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Unread::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Unread::BrokeOff => StatusCode::BAD_REQUEST,
        };
        Self::new(status, why.code(), why.to_string()).at("body")
    }
}

impl From<NotReceived> for ApiError {
    fn from(why: NotReceived) -> Self {
        let (code, message) = (why.code(), why.to_string());
        match why {
            NotReceived::UnknownRoute(_) => Self::new(StatusCode::NOT_FOUND, code, message),
            NotReceived::Unread(why) => why.into(),
            NotReceived::Refused(why) => {
                use crate::webhooks::verify::Refused;
                let remote =
                    matches!(why, Refused::UnsignedRemote | Refused::UnsignedIndirect { .. });
                let status = if remote { StatusCode::FORBIDDEN } else { StatusCode::UNAUTHORIZED };
                Self::new(status, code, message)
            }
            NotReceived::Body(_) => Self::new(StatusCode::BAD_REQUEST, code, message).at("body"),
            // The sender can do nothing about our configuration but come again.
            NotReceived::Offer(OfferError::UnknownAgent(name)) => {
                error!(agent = %name, "W038 a webhook route names an agent that is not configured");
                Self::later(code, "this route leads nowhere just now")
            }
            NotReceived::Offer(OfferError::Step(why)) => Self::from(why),
            NotReceived::Busy { max } => Self::busy(max, "webhooks"),
        }
    }
}
