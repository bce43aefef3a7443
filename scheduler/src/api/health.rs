//! `/healthz` and `/readyz`: does the process live, and can it do its work?

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use portcullis_engine::ports::{Condition, StoreError};
use serde_json::{Value, json};

use super::Ctx;
use crate::settings::Deployment;

/// `GET /healthz`
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// `GET /readyz`: 503 while the store cannot be reached, and once the process drains. A broker
/// that is down does not count: what is accepted meanwhile is rung for later.
pub(super) async fn ready(State(ctx): State<Ctx>) -> (StatusCode, Json<Value>) {
    let store = match ctx.engine.store.now().await {
        Ok(_) => "up",
        Err(StoreError::Epoch) => "swapped",
        Err(StoreError::Unavailable(_) | StoreError::Corrupt(_) | StoreError::TooLarge { .. }) => {
            "down"
        }
    };
    let bus = match *ctx.engine.bus.condition().borrow() {
        Condition::Up => "up",
        Condition::Blocked => "blocked",
        Condition::Down => "down",
    };
    let draining = ctx.ending.is_cancelled();
    let ready = store == "up" && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let epoch = ctx.engine.store.shape().epoch;
    let deployment = ctx.settings.deployment.map(Deployment::as_str);
    let body = json!({
        "ready": ready, "store": store, "bus": bus, "draining": draining, "epoch": epoch,
        "deployment": deployment,
    });
    (status, Json(body))
}
