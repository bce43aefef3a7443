//! `/openapi.json`: what there is, for programs and for people with a viewer.

use axum::Json;
use serde_json::{Map, Value, json};

use super::ROUTES;

/// `GET /openapi.json`
pub(super) async fn describe() -> Json<Value> {
    Json(description())
}

/// The whole description (OpenAPI 3.1).
pub(super) fn description() -> Value {
    let mut paths = Map::new();
    for (method, path, summary) in ROUTES {
        let at = paths.entry((*path).to_owned()).or_insert_with(|| json!({}));
        at[*method] = operation(method, path, summary);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Portcullis",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Times are Unix milliseconds by the store's clock.",
        },
        "paths": paths,
        "components": { "schemas": schemas(), "securitySchemes": {
            "token": { "type": "http", "scheme": "bearer", "description":
                "On a loopback address only deciding needs one, an approver's." },
        } },
    })
}

fn operation(method: &str, path: &str, summary: &str) -> Value {
    let success = if matches!((method, path), ("post", "/v1/runs" | "/hooks/{route}")) {
        "202"
    } else {
        "200"
    };
    let mut responses = json!({
        success: { "description": "Done", "content": content(path, method) },
        "default": { "description": "Not done, and why",
            "content": { "application/json": { "schema": reference("Error") } } },
    });
    if path == "/readyz" {
        responses["503"] = json!({ "description": "Not ready, and why" });
    }
    let mut operation = json!({ "summary": summary, "responses": responses });
    let mut parameters: Vec<Value> = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| parameter("path", name, "string", true))
        .collect();
    parameters.extend(queries(method, path));
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if path.starts_with("/v1/") {
        operation["security"] = match path {
            "/v1/approvals/{id}/decision" => json!([{ "token": [] }]),
            _ => json!([{}, { "token": [] }]),
        };
    }
    if let Some(schema) = body(method, path) {
        operation["requestBody"] = json!({
            "required": true, "content": { "application/json": { "schema": schema } },
        });
    }
    operation
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn parameter(place: &str, name: &str, kind: &str, required: bool) -> Value {
    json!({ "in": place, "name": name, "required": required, "schema": { "type": kind } })
}

fn queries(method: &str, path: &str) -> Vec<Value> {
    let names: &[(&str, &str, &str)] = match (method, path) {
        ("get", "/v1/runs") => &[
            ("query", "phase", "string"),
            ("query", "limit", "integer"),
            ("query", "after", "string"),
        ],
        ("post", "/v1/runs") => &[("header", "Idempotency-Key", "string")],
        ("get", "/v1/approvals") => &[("query", "pool", "string"), ("query", "limit", "integer")],
        ("post", "/v1/approvals/{id}/decision") => &[("header", "Portcullis-Channel", "string")],
        ("get", "/v1/waits") => &[("query", "limit", "integer")],
        ("get", "/v1/events") => &[
            ("query", "run", "string"),
            ("query", "after", "string"),
            ("header", "Last-Event-ID", "string"),
        ],
        _ => &[],
    };
    names.iter().map(|(place, name, kind)| parameter(place, name, kind, false)).collect()
}

fn body(method: &str, path: &str) -> Option<Value> {
    match (method, path) {
        ("post", "/v1/runs") => Some(reference("Start")),
        ("post", "/v1/runs/{id}/cancel") => Some(reference("Cancel")),
        ("post", "/v1/approvals/{id}/decision") => Some(reference("Decision")),
        ("post", "/hooks/{route}") => Some(json!({ "description": "Whatever the sender signs" })),
        _ => None,
    }
}

fn content(path: &str, method: &str) -> Value {
    if path == "/v1/events" {
        return json!({ "text/event-stream": { "schema": { "type": "string" } } });
    }
    let schema = match (method, path) {
        ("post", "/v1/runs" | "/hooks/{route}") => reference("Started"),
        ("get", "/v1/approvals/{id}") | ("post", "/v1/approvals/{id}/decision") => {
            reference("Approval")
        }
        ("get", "/v1/approvals") => listing("approvals", reference("Approval")),
        ("get", "/v1/runs") => listing("runs", reference("Run")),
        ("get", "/v1/runs/{id}") => reference("Run"),
        ("get", "/v1/waits") => listing("waits", reference("Wait")),
        _ => json!({ "type": "object" }),
    };
    json!({ "application/json": { "schema": schema } })
}

fn listing(name: &str, of: Value) -> Value {
    json!({ "type": "object", "properties": { name: { "type": "array", "items": of } } })
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

fn strict(required: &[&str], properties: Value) -> Value {
    let mut schema = object(required, properties);
    schema["additionalProperties"] = json!(false);
    schema
}

fn schemas() -> Value {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer" });
    let phase = json!({ "enum": ["queued", "running", "waiting", "backoff", "ended"] });
    let outcome = json!({ "enum": ["succeeded", "completed_with_denials", "failed", "timed_out",
        "cancelled", "interrupted"] });
    json!({
        "Error": object(&["error"], json!({ "error": object(&["code", "message"], json!({
            "code": text(), "message": text(), "where": text(), "mend": text() })) })),
        "Start": strict(&["agent"], json!({
            "agent": text(), "input": {}, "tenant": text(), "idempotency_key": text(),
            "attended": strict(&["approver"], json!({ "approver": text() })),
            "start_by_seconds": { "type": "number", "exclusiveMinimum": 0 } })),
        "Started": object(&["run_id", "duplicate"], json!({
            "run_id": text(), "duplicate": { "type": "boolean" } })),
        "Cancel": strict(&[], json!({ "reason": text() })),
        "Decision": strict(&["verdict", "nonce", "args_hash"], json!({
            "verdict": { "enum": ["approve", "deny"] }, "nonce": text(), "args_hash": text(),
            "reason": text() })),
        "Run": object(&["run_id", "phase", "agent"], json!({
            "run_id": text(), "phase": phase, "outcome": outcome, "agent": text(),
            "created": number(), "next": { "type": "object" },
            "calls": { "type": "array" }, "waits": { "type": "array" },
            "deadlines": { "type": "array" }, "history": { "type": "array" } })),
        "Approval": object(&["approval_id", "nonce", "args_hash", "deadline", "state"], json!({
            "approval_id": text(), "rev": number(), "nonce": text(), "args_hash": text(),
            "pool": text(), "tool": text(), "args": {}, "run_id": text(), "deadline": number(),
            "seconds_left": { "type": "number" }, "need": number(),
            "state": { "enum": ["requested", "approved", "used", "refused"] },
            "votes": { "type": "array" }, "denial": { "type": "object" } })),
        "Wait": object(&["run_id", "for", "who", "ends_at", "ends_how"], json!({
            "run_id": text(), "for": { "enum": ["worker", "decision", "child", "time"] },
            "who": text(), "ends_at": number(), "ends_how": text() })),
    })
}
