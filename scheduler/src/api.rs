//! Which question over HTTP is answered by which function?
//!
//! Authority: none. Extract, call one function, answer.
//! Invariant: `GET` changes nothing. `/v1` asks who calls and from which page; `/hooks` asks the
//! route's own secret; nothing else reads or changes a run.

mod answer;
mod approvals;
mod events;
mod extract;
mod guard;
mod health;
pub(crate) mod openapi;
mod runs;
mod standing;
mod waits;
mod webhooks;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use portcullis_engine::trace;
use portcullis_proto::job::Trace;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::trace::TraceLayer;
use tracing::error;

use self::answer::ApiError;
use crate::Scheduler;

type Ctx = Arc<Scheduler>;

/// Every path there is, for the description and its test: method, path, what it does.
pub(crate) const ROUTES: &[(&str, &str, &str)] = &[
    ("post", "/hooks/{route}", "Receive a webhook"),
    ("post", "/v1/runs", "Start a run"),
    ("get", "/v1/runs", "List runs, newest first"),
    ("get", "/v1/runs/{id}", "Show a run"),
    ("post", "/v1/runs/{id}/cancel", "Cancel a run"),
    ("get", "/v1/approvals", "List open requests, the most urgent first"),
    ("get", "/v1/approvals/{id}", "Show a request"),
    ("post", "/v1/approvals/{id}/decision", "Approve or deny a request"),
    ("get", "/v1/waits", "List open waits: who must act, and when they end by themselves"),
    ("get", "/v1/agents", "List the agents that can be started"),
    ("get", "/v1/reminders", "List reminders"),
    ("get", "/v1/webhooks", "List webhook routes"),
    ("get", "/v1/events", "Follow what happens, as server-sent events"),
    ("get", "/healthz", "Whether the process lives"),
    ("get", "/readyz", "Whether it can do its work"),
    ("get", "/openapi.json", "This description"),
];

/// The scheduler's whole HTTP interface.
pub fn app(ctx: &Ctx) -> Router {
    app_with(ctx, Router::new())
}

/// The same with further routes, such as `/metrics`. They are not guarded.
pub fn app_with(ctx: &Ctx, extra: Router) -> Router {
    let v1 = Router::new()
        .route("/v1/runs", post(runs::start).get(runs::list))
        .route("/v1/runs/{id}", get(runs::show))
        .route("/v1/runs/{id}/cancel", post(runs::cancel))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", get(approvals::show))
        .route("/v1/approvals/{id}/decision", post(approvals::decide))
        .route("/v1/waits", get(waits::list))
        .route("/v1/agents", get(standing::agents))
        .route("/v1/reminders", get(standing::reminders))
        .route("/v1/webhooks", get(standing::webhooks))
        .route("/v1/events", get(events::follow))
        .layer(from_fn_with_state(Arc::clone(ctx), guard::guard));
    Router::new()
        .merge(v1)
        .route("/hooks/{route}", post(webhooks::receive))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/openapi.json", get(openapi::describe))
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::clone(ctx))
        .merge(extra)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(TraceLayer::new_for_http().make_span_with(span).on_failure(()))
}

async fn no_such_path() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "no_such_path", "there is nothing at this path")
        .mend("see /openapi.json for what there is")
}

async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "this path has no such method")
        .mend("see /openapi.json for what there is")
}

/// The path's pattern only: ids belong in the run's own span, and queries nowhere.
fn span(request: &Request) -> tracing::Span {
    let path = request
        .extensions()
        .get::<axum::extract::MatchedPath>()
        .map_or("-", axum::extract::MatchedPath::as_str);
    let span = tracing::info_span!("http", method = %request.method(), path);
    let stated = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    if let Some(from) = stated.and_then(Trace::of_header) {
        trace::go_on(&span, &from);
    }
    span
}

#[expect(clippy::needless_pass_by_value, reason = "the layer's signature")]
fn panicked(what: Box<dyn Any + Send + 'static>) -> Response {
    let what = what
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| what.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    error!(what, "W030 a request handler panicked");
    ApiError::internal().into_response()
}

#[cfg(test)]
mod tests;
