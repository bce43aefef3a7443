use std::net::TcpListener;
use std::time::Duration;

use portcullis_worker::tools::{NotRunCode, Tool as _};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{
    PATIENCE, Server, answer, call, failed, get, http, not_run, reaching, succeeded,
};

#[tokio::test]
async fn a_connection_that_is_refused_means_not_run() {
    // Taken and let go, so nobody listens.
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let why = not_run(get(&http(vec![]), &format!("http://127.0.0.1:{port}/?secret")).await);
    assert_eq!(why.code, NotRunCode::ConnectFailed);
    assert!(!why.message.contains("secret"), "{why}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_means_not_run() {
    let why = not_run(get(&http(vec![]), "http://portcullis.invalid/").await);
    assert_eq!(why.code, NotRunCode::ResolveFailed, "{why}");
}

#[tokio::test]
async fn a_tls_handshake_that_fails_means_not_run() {
    let server = Server::start(vec![answer(200, "", "not TLS")]).await;
    let why = not_run(get(&http(vec![]), &server.url("/").replace("http:", "https:")).await);
    assert_eq!(why.code, NotRunCode::ConnectFailed, "{why}");
}

/// The server may have acted, and died before it could say so.
#[tokio::test]
async fn a_connection_that_breaks_after_the_request_leaves_the_outcome_unknown() {
    let server = Server::start(vec![vec![]]).await;
    let said = failed(get(&http(vec![]), &server.url("/")).await);
    assert_eq!(said["error"], "outcome_unknown", "{said}");
    assert_eq!(server.requests().len(), 1, "it must not be sent twice");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure_with_its_status() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec();
    let server = Server::start(vec![half]).await;
    let said = failed(get(&http(vec![]), &server.url("/")).await);
    assert_eq!(said["error"], "response_incomplete", "{said}");
    assert_eq!((&said["status"], &said["body"]), (&json!(200), &json!("half")));
}

/// Listens and never answers: the kernel completes the connection.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_at_the_timeout() {
    let (_listener, url) = silent();
    let mut call = call(json!({ "method": "GET", "url": url }));
    call.timeout = Duration::from_millis(200);
    let said = failed(http(vec![]).run(call).await);
    assert_eq!(said, json!({ "error": "tool_timed_out", "timeout_ms": 200 }));
}

#[tokio::test]
async fn a_cancelled_request_is_a_failure_once_it_is_under_way_and_not_run_before() {
    let (listener, url) = silent();
    let call = call(json!({ "method": "GET", "url": url }));
    let cancel = call.cancel.clone();
    let http = http(vec![]);
    let again = call.clone();
    let (outcome, ()) = tokio::join!(http.run(call), async {
        let accepted = tokio::task::spawn_blocking(move || listener.accept().unwrap());
        timeout(PATIENCE, accepted).await.unwrap().unwrap();
        cancel.cancel();
    });
    assert_eq!(failed(outcome), json!({ "error": "cancelled" }));
    assert_eq!(not_run(http.run(again).await).code, NotRunCode::Cancelled);
}

#[tokio::test]
async fn arguments_that_were_never_checked_are_not_sent() {
    let server = Server::start(vec![]).await;
    let args = json!({ "method": "GET", "url": server.url("/"), "follow": true });
    assert_eq!(not_run(http(vec![]).run(call(args)).await).code, NotRunCode::ArgsRefused);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_listed_name_is_reached_through_the_checked_resolver() {
    let server = Server::start(vec![answer(200, "", "hello")]).await;
    let url = format!("http://localhost:{}/", server.address.port());
    // `localhost` may mean ::1 as well, where nobody listens: the connector tries the next.
    assert_eq!(succeeded(get(&reaching(&["localhost"], vec![]), &url).await)["body"], "hello");
}
