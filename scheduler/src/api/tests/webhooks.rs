use axum::body::{Body, Bytes};
use axum::http::Request;
use hmac::{Hmac, KeyInit as _, Mac as _};
use portcullis_engine::ports::Condition;
use serde_json::json;
use sha2::Sha256;

use crate::fake::{Stage, Trouble, settings};

fn signed(body: &[u8]) -> axum::http::request::Builder {
    let mut mac = Hmac::<Sha256>::new_from_slice(b"0123456789abcdef").unwrap();
    mac.update(body);
    let signature = data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes());
    Request::post("/hooks/github")
        .header("content-type", "application/json")
        .header("x-hub-signature-256", format!("sha256={signature}"))
}

fn delivery(body: &'static str) -> Request<Body> {
    signed(body.as_bytes()).body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn a_signed_webhook_becomes_a_run_and_its_replay_the_same_one() {
    let stage = Stage::new();
    let first = stage.send(delivery(r#"{"ref":"main"}"#)).await;
    assert_eq!((first.status.as_u16(), &first.json["duplicate"]), (202, &json!(false)));
    let again = stage.send(delivery(r#"{"ref":"main"}"#)).await;
    assert_eq!(again.json, json!({ "run_id": first.json["run_id"], "duplicate": true }));
    let other = stage.send(delivery(r#"{"ref":"next"}"#)).await;
    assert_ne!(other.json["run_id"], first.json["run_id"]);
    let id = first.json["run_id"].as_str().unwrap();
    let run = stage.get(&format!("/v1/runs/{id}")).await.json;
    assert_eq!(run["origin"], json!({ "webhook": { "route": "github" } }));
    assert_eq!((&run["tenant"], &run["attendance"]), (&json!("acme"), &json!("unattended")));
    assert_eq!(run["input"]["inline"], json!({ "ref": "main" }));
}

#[tokio::test]
async fn the_senders_trace_goes_on() {
    let stage = Stage::new();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let request = signed(b"{}").header("traceparent", trace).body(Body::from("{}")).unwrap();
    let told = stage.send(request).await;
    let id = told.json["run_id"].as_str().unwrap();
    let run = stage.get(&format!("/v1/runs/{id}")).await.json;
    assert_eq!(run["trace"]["traceparent"], trace);
}

#[tokio::test]
async fn what_does_not_prove_itself_is_not_even_parsed() {
    let stage = Stage::new();
    let post = |path: &str| Request::post(path).header("content-type", "application/json");
    let cases = [
        (post("/hooks/nowhere").body(Body::from("{}")), (404, "unknown_route")),
        (post("/hooks/a%20b").body(Body::from("{}")), (404, "unknown_route")),
        (post("/hooks/github").body(Body::from("{}")), (401, "signature_missing")),
        (signed(b"{}").body(Body::from("{} ")), (401, "signature_mismatch")),
        // Unsigned nonsense is unsigned, not nonsense.
        (post("/hooks/github").body(Body::from("{")), (401, "signature_missing")),
        (signed(b"{").body(Body::from("{")), (400, "body_not_json")),
        (
            signed(br#"{"a":1,"a":2}"#).body(Body::from(r#"{"a":1,"a":2}"#)),
            (400, "body_duplicate_key"),
        ),
    ];
    for (request, no) in cases {
        let request = request.unwrap();
        let path = request.uri().to_string();
        assert_eq!(stage.send(request).await.no(), no, "{path}");
    }
    assert_eq!(stage.store.commits(), 0);
}

#[tokio::test]
async fn a_long_body_is_refused_however_it_states_its_length() {
    let stage = Stage::new();
    let long = vec![b' '; 1_025];
    let stated = signed(&long).header("content-length", "1025").body(Body::from(long.clone()));
    assert_eq!(stage.send(stated.unwrap()).await.no(), (413, "body_too_large"));
    let lying = signed(&long).header("content-length", "2").body(Body::from(long.clone()));
    assert_eq!(stage.send(lying.unwrap()).await.no(), (413, "body_too_large"));
    let parts = long.chunks(100).map(|part| Ok::<_, std::io::Error>(Bytes::copy_from_slice(part)));
    let chunked = Body::from_stream(futures_util::stream::iter(parts.collect::<Vec<_>>()));
    assert_eq!(
        stage.send(signed(&long).body(chunked).unwrap()).await.no(),
        (413, "body_too_large")
    );
    let broken = futures_util::stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]);
    let broken = signed(b"").body(Body::from_stream(broken)).unwrap();
    assert_eq!(stage.send(broken).await.no(), (400, "body_broke_off"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_arrives_is_given_up() {
    let stage = Stage::new();
    let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let told = stage.send(signed(b"").body(never).unwrap()).await;
    assert_eq!(told.no(), (408, "body_too_slow"));
}

#[tokio::test]
async fn an_unsigned_route_trusts_direct_local_callers_only() {
    let stage = Stage::new();
    let request = || Request::post("/hooks/open").header("content-type", "application/json");
    let direct = request().body(Body::from("{}")).unwrap();
    assert_eq!(stage.send(direct).await.status, 202);
    // Without a known address, the caller counts as far away.
    let unknown = request().body(Body::from("{}")).unwrap();
    assert_eq!(stage.send_raw(unknown).await.no(), (403, "unsigned_remote"));
    let page = request().header("origin", "http://evil.example").body(Body::from("{}")).unwrap();
    assert_eq!(stage.send(page).await.no(), (403, "unsigned_indirect"));
}

#[tokio::test]
async fn no_webhook_is_acknowledged_that_could_be_lost() {
    let stage = Stage::new();
    // Nor can the broker take it.
    stage.bus.condition.send_replace(Condition::Down);
    for trouble in [Trouble::Down, Trouble::NotDurable, Trouble::RepliesLost] {
        stage.store.trouble(Some(trouble));
        for _ in 0..2 {
            let told = stage.send(delivery("{}")).await;
            assert_eq!(told.no().0, 503, "{trouble:?}");
            assert!(told.headers.contains_key("retry-after"));
        }
    }
    stage.store.trouble(None);
    assert_eq!(stage.send(delivery("{}")).await.status, 202);
}

#[tokio::test]
async fn no_more_webhooks_are_received_at_once_than_allowed() {
    let mut narrow = settings();
    narrow.in_flight.webhooks_max = 0;
    let told = Stage::with(narrow).send(delivery("{}")).await;
    assert_eq!(told.no(), (503, "busy"));
    assert!(told.headers.contains_key("retry-after"));
}
