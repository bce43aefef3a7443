use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use crate::fake::{ALICE, Stage, TOKEN, settings};

fn start() -> axum::http::request::Builder {
    Request::post("/v1/runs").header("content-type", "application/json")
}

fn body() -> Body {
    Body::from(json!({ "agent": "greeter" }).to_string())
}

#[tokio::test]
async fn on_loopback_only_our_own_names_are_answered_to() {
    let stage = Stage::new();
    let get = async |host: &str| {
        let request = Request::get("/v1/runs").header("host", host);
        stage.send(request.body(Body::empty()).unwrap()).await.no().0
    };
    for own in ["localhost", "127.0.0.1:8080", "[::1]:8080", "127.0.0.2", "LOCALHOST:1"] {
        assert_eq!(get(own).await, 200, "{own}");
    }
    for foreign in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", ""] {
        assert_eq!(get(foreign).await, 403, "{foreign}");
    }
    let nameless = Request::get("/v1/runs").body(Body::empty()).unwrap();
    assert_eq!(stage.send_raw(nameless).await.no(), (403, "foreign_host"));
    let absolute = Request::get("http://evil.example/v1/runs").body(Body::empty()).unwrap();
    assert_eq!(stage.send(absolute).await.no(), (403, "foreign_host"));
    let mut named = settings();
    named.hosts.push("portcullis.internal".into());
    let request = Request::get("/v1/runs").header("host", "Portcullis.internal");
    let told = Stage::with(named).send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(told.status, 200);
}

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing() {
    let stage = Stage::new();
    let send = async |name: &str, value: &str| {
        let request = start().header(name, value).body(body()).unwrap();
        stage.send(request).await
    };
    for origin in ["http://evil.example", "null", "http://127.0.0.1:9999", "file://", "http://x y"]
    {
        assert_eq!(send("origin", origin).await.no(), (403, "foreign_origin"), "{origin}");
    }
    for site in ["cross-site", "same-site"] {
        assert_eq!(send("sec-fetch-site", site).await.no(), (403, "foreign_origin"), "{site}");
    }
    assert_eq!(send("origin", "http://127.0.0.1:8080").await.status, 202);
    assert_eq!(send("sec-fetch-site", "same-origin").await.status, 202);
    let twice = start().header("origin", "http://127.0.0.1:8080").header("origin", "null");
    assert_eq!(stage.send(twice.body(body()).unwrap()).await.no(), (422, "bad_header"));
}

#[tokio::test]
async fn bound_elsewhere_everything_needs_a_token() {
    let mut open = settings();
    open.listen = "0.0.0.0:8080".parse().unwrap();
    let stage = Stage::with(open);
    let get = async |token: Option<&str>| {
        let mut request = Request::get("/v1/runs").header("host", "portcullis.example");
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        stage.send(request.body(Body::empty()).unwrap()).await
    };
    assert_eq!(get(None).await.no(), (401, "no_credential"));
    assert_eq!(get(Some("Bearer guess")).await.no(), (401, "unknown_token"));
    for unreadable in ["Basic abc", "Bearer", "Bearer ", &format!("Bearer {}", "x".repeat(513))] {
        assert_eq!(
            get(Some(unreadable)).await.no(),
            (401, "credential_unreadable"),
            "{unreadable}"
        );
    }
    for token in [TOKEN, ALICE] {
        assert_eq!(get(Some(&format!("bearer {token}"))).await.status, 200);
    }
    assert_eq!(stage.post("/v1/runs", None, json!({ "agent": "greeter" })).await.no().0, 401);
    assert_eq!(
        stage.post("/v1/runs", Some(TOKEN), json!({ "agent": "greeter" })).await.status,
        202
    );
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(stage.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn without_tokens_nobody_gets_in_from_elsewhere() {
    let mut open = settings();
    open.listen = "[::]:8080".parse().unwrap();
    open.api_tokens.clear();
    open.approvers.clear();
    let stage = Stage::with(open);
    assert_eq!(stage.get("/v1/runs").await.no(), (401, "no_credential"));
    assert_eq!(stage.post("/v1/runs", Some(TOKEN), json!({})).await.no(), (401, "unknown_token"));
}

#[tokio::test]
async fn an_unknown_token_is_refused_where_none_is_needed() {
    let told = Stage::new().post("/v1/runs", Some("old"), json!({ "agent": "greeter" })).await;
    assert_eq!(told.no(), (401, "unknown_token"));
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_allowed() {
    let mut narrow = settings();
    narrow.in_flight.requests_max = 0;
    let told = Stage::with(narrow).get("/v1/runs").await;
    assert_eq!(told.no(), (503, "busy"));
    assert!(told.headers.contains_key("retry-after"));
}
