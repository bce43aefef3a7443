//! What does `/metrics` answer?
//!
//! Invariant: a scrape asks the store for a bounded time, and answers without it when it is away.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use portcullis_scheduler::Scheduler;
use prometheus::TextEncoder;
use tracing::warn;

use super::gauges::Gauges;

/// How long a scrape waits for the store, in milliseconds.
const STORE_MS_MAX: u64 = 2_000;

/// What a scrape reads.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) registry: prometheus::Registry,
    /// Only a scheduler looks into the store's lists.
    pub(crate) scheduler: Option<(Arc<Scheduler>, Arc<Gauges>)>,
}

/// The route.
pub(crate) fn router(sources: Sources) -> Router {
    Router::new().route("/metrics", get(scrape)).with_state(sources)
}

async fn scrape(State(sources): State<Sources>) -> Response {
    if let Some((scheduler, gauges)) = &sources.scheduler {
        refresh(scheduler, gauges).await;
    }
    match TextEncoder::new().encode_to_string(&sources.registry.gather()) {
        Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(why) => {
            warn!(%why, "metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn refresh(scheduler: &Scheduler, gauges: &Gauges) {
    let read = tokio::time::timeout(Duration::from_millis(STORE_MS_MAX), scheduler.gauges());
    match read.await {
        Ok(Ok(readings)) => gauges.record(&readings),
        Ok(Err(why)) => warn!(%why, "gauges not read: they are as they were"),
        Err(_) => warn!("gauges not read within {STORE_MS_MAX} ms: they are as they were"),
    }
}
