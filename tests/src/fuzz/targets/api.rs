//! Everything the scheduler takes over HTTP: paths, queries, headers, bodies, event ids.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode};
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use portcullis_engine::Engine;
use portcullis_engine::record::Record;
use portcullis_scheduler::Scheduler;
use serde_json::Value;
use sha2::Sha256;
use tower::ServiceExt as _;

use super::super::{Target, hold, told};
use super::{LARGE, request};
use crate::simulation::agents::{Plan, SECRET};
use crate::simulation::bus_port::BusPort;
use crate::simulation::chance::Around;
use crate::simulation::life::Life;
use crate::simulation::store_port::StorePort;
use crate::simulation::world::World;

pub(super) const API: Target = Target {
    name: "api",
    promise: "no request makes the server fail; a refusal says in one line what and where, and \
              leaves nothing behind; what is accepted is a run that can be read",
    seeds,
    check,
    memory_bytes: 4 * LARGE,
    slice: 300,
};

const RUN: &str = "s00-7hxr6jrzkvnpq7ro6rwcn727pu";
/// An answer is read up to this many bytes.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

fn seeds() -> Vec<Vec<u8>> {
    let host = ("Host", "localhost");
    let json = [host, ("Content-Type", "application/json")];
    let decides = [host, ("Content-Type", "application/json"), ("Authorization", "Bearer alice")];
    let keyed = [json[0], json[1], ("Idempotency-Key", "k-1"), ("Portcullis-Channel", "cli")];
    let start = br#"{"agent":"plain","input":{"key":"a","n":1.5,"list":[null]},"tenant":"acme",
        "idempotency_key":"k-1","start_by_seconds":60}"#;
    let attended = br#"{"agent":"asker","attended":{"approver":"alice"}}"#;
    let decision = br#"{"verdict":"approve","nonce":"2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a","args_hash":
        "9038deafeddd51dafeac4c9de13314062b3fd1e53a0bbac9569b7ed533990080","reason":"why"}"#;
    let hook = br#"{"key":"hook"}"#;
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key");
    mac.update(hook);
    let signature = format!("sha256={}", HEXLOWER.encode(&mac.finalize().into_bytes()));
    let signed = [json[1], ("X-Hub-Signature-256", signature.as_str())];
    let resumed = [host, ("Last-Event-ID", "MCAw")];
    let to = |line: &str| format!("{line} HTTP/1.1");
    vec![
        request::write(&to("POST /v1/runs"), &keyed, start),
        request::write(&to("POST /v1/runs"), &decides, attended),
        request::write(&to("GET /v1/runs?phase=waiting&limit=2&after=1.a"), &[host], b""),
        request::write(&to(&format!("GET /v1/runs/{RUN}")), &[host], b""),
        request::write(&to(&format!("POST /v1/runs/{RUN}/cancel")), &json, br#"{"reason":"x"}"#),
        request::write(&to("GET /v1/approvals?pool=ops&limit=5"), &[host], b""),
        request::write(&to(&format!("GET /v1/approvals/{RUN}.0.1")), &[host], b""),
        request::write(&to(&format!("POST /v1/approvals/{RUN}.0.1/decision")), &decides, decision),
        request::write(&to("GET /v1/waits"), &[host], b""),
        request::write(&to("GET /v1/reminders"), &[host, ("Origin", "http://localhost")], b""),
        request::write(&to("GET /v1/webhooks"), &[host, ("Sec-Fetch-Site", "none")], b""),
        request::write(&to(&format!("GET /v1/events?run={RUN}&after=MCAw")), &resumed, b""),
        request::write(&to("POST /hooks/plain"), &signed, hook),
        request::write(&to("GET /openapi.json"), &[host], b""),
        request::write(&to("GET /readyz"), &[host], b""),
    ]
}

fn asked(bytes: &[u8]) -> Option<(Request<Body>, bool)> {
    let (line, headers, body) = request::read(bytes);
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let (method, uri) = (words.next()?, words.next()?);
    let mut asked = Request::builder().method(method).uri(uri);
    *asked.headers_mut()? = headers;
    let reads = matches!(method, "GET" | "HEAD");
    let mut asked = asked.body(Body::from(body.to_vec())).ok()?;
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4_000));
    asked.extensions_mut().insert(ConnectInfo(peer));
    Some((asked, reads))
}

fn check(bytes: &[u8]) -> Result<String, String> {
    let Some((asked, reads)) = asked(bytes) else { return Ok("no request".to_owned()) };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let world = World::new(1);
        world.calm();
        let app = app(&world);
        let path = asked.uri().path().to_owned();
        let (status, headers, body) = answered(&app, asked).await?;
        let runs: BTreeMap<String, _> = world.store.runs().into_iter().collect();
        let kept = status.is_success() && !reads;
        hold(kept || runs.is_empty(), || format!("{status} {path} left {} records", runs.len()))?;
        for bytes in runs.values() {
            Record::decode(bytes).map_err(|why| format!("{status} {path}, and {why}"))?;
        }
        for run in runs.keys() {
            let shown = Request::get(format!("/v1/runs/{run}")).header("Host", "localhost");
            let (shown, ..) = answered(&app, shown.body(Body::empty()).expect("a request")).await?;
            hold(shown == StatusCode::OK, || format!("the run of {path} is {shown}"))?;
        }
        if status.is_success() {
            Ok(format!("{status} {path:.12}"))
        } else {
            refusal(status, &headers, &body)
        }
    })
}

fn app(world: &Arc<World>) -> Router {
    let life = Life::new(world, "p".to_owned());
    let (store, bus) = (Arc::new(StorePort(Arc::clone(&life))), Arc::new(BusPort(life)));
    let engine = Engine::new(store, bus, Arc::new(Around::new(world)));
    portcullis_scheduler::app(&Scheduler::new(engine, Plan::of(world).scheduler(true)))
}

async fn answered(
    app: &Router,
    asked: Request<Body>,
) -> Result<(StatusCode, HeaderMap, Vec<u8>), String> {
    let (parts, body) = app.clone().oneshot(asked).await.expect("infallible").into_parts();
    let stream = parts.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    // An event stream has no end.
    let body = if stream {
        Vec::new()
    } else {
        let read = axum::body::to_bytes(body, ANSWER_BYTES_MAX).await;
        read.map_err(|why| format!("an answer without end: {why}"))?.to_vec()
    };
    let fails = parts.status.is_server_error() && parts.status != StatusCode::SERVICE_UNAVAILABLE;
    hold(!fails, || format!("{} {}", parts.status, String::from_utf8_lossy(&body)))?;
    Ok((parts.status, parts.headers, body))
}

/// A refusal is JSON with a code and one line.
fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<String, String> {
    let json = headers.get("content-type").is_some_and(|kind| kind == "application/json");
    hold(json || body.is_empty(), || {
        format!("{status} is no JSON: {}", String::from_utf8_lossy(body))
    })?;
    if body.is_empty() {
        return Ok(format!("{status}"));
    }
    let answer: Value = serde_json::from_slice(body).map_err(|why| format!("{status}: {why}"))?;
    let code = answer["error"]["code"].as_str().unwrap_or_default();
    hold(!code.is_empty(), || format!("{status} has no code: {answer}"))?;
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    told(&message, &[])?;
    if let Some(place) = answer["error"]["place"].as_str() {
        told(&place, &[])?;
    }
    Ok(format!("{status} {code} {message}"))
}
