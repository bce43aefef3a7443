use serde_json::json;

use crate::support::{Server, answer, failed, get, http, run, succeeded};

#[tokio::test]
async fn a_request_carries_what_the_call_says_and_who_calls() {
    let server = Server::start(vec![answer(201, "x-served-by: test\r\n", "made")]).await;
    let args = json!({
        "method": "POST",
        "url": server.url("/things?a=b#c"),
        "headers": { "X-Ask": "please" },
        "json": { "name": "x" },
    });

    let said = succeeded(run(&http(vec![]), args).await);

    assert_eq!((&said["status"], &said["body"]), (&json!(201), &json!("made")));
    assert_eq!(said["headers"]["x-served-by"], "test");
    let [request] = server.requests().try_into().unwrap();
    assert!(request.starts_with("POST /things?a=b HTTP/1.1\r\n"), "{request}");
    for line in [
        "x-ask: please",
        "idempotency-key: run-1/2",
        "portcullis-claim: claim-3",
        "content-type: application/json",
    ] {
        assert!(request.lines().any(|sent| sent == line), "no `{line}` in {request}");
    }
    assert!(request.ends_with("\r\n\r\n{\"name\":\"x\"}"), "{request}");
}

#[tokio::test]
async fn an_error_of_the_server_is_a_failure_with_its_status_and_words() {
    for status in [400, 404, 429, 500, 503] {
        let server = Server::start(vec![answer(status, "", "no")]).await;
        let said = failed(get(&http(vec![]), &server.url("/")).await);
        assert_eq!((&said["status"], &said["body"]), (&json!(status), &json!("no")));
    }
}

#[tokio::test]
async fn a_long_answer_is_cut_and_says_so() {
    let long = "x".repeat(300_000);
    let server = Server::start(vec![answer(200, "", &long)]).await;
    let said = succeeded(get(&http(vec![]), &server.url("/")).await);
    assert_eq!((&said["body_truncated"], &said["body_bytes"]), (&json!(true), &json!(300_000)));
    let body = said["body"].as_str().unwrap();
    assert!(body.starts_with("xxx") && body.len() < 262_144 + 64, "{}", body.len());
    assert!(body.ends_with("left out …]"));
}

#[tokio::test]
async fn an_answer_just_at_the_limit_is_whole() {
    let server = Server::start(vec![answer(200, "", &"x".repeat(262_144))]).await;
    let said = succeeded(get(&http(vec![]), &server.url("/")).await);
    assert_eq!((&said["body_truncated"], &said["body_bytes"]), (&json!(null), &json!(262_144)));
}

#[tokio::test]
async fn cookies_of_the_server_are_not_handed_to_the_agent() {
    let server = Server::start(vec![answer(200, "set-cookie: session=sesame\r\n", "")]).await;
    let said = succeeded(get(&http(vec![]), &server.url("/")).await);
    assert!(!said.to_string().contains("sesame"), "{said}");
}
