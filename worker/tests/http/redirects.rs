use serde_json::json;

use crate::support::{Server, answer, failed, get, http, reaching, redirect, run, succeeded};

#[tokio::test]
async fn redirects_are_followed_up_to_five_times() {
    let hop = || redirect(302, "/next");
    let five =
        Server::start(vec![hop(), hop(), hop(), hop(), hop(), answer(200, "", "here")]).await;
    let said = succeeded(get(&http(vec![]), &five.url("/")).await);
    assert_eq!((&said["body"], &said["redirects"]), (&json!("here"), &json!(5)));

    let more = Server::start((0..6).map(|_| hop()).collect()).await;
    let said = failed(get(&http(vec![]), &more.url("/")).await);
    assert_eq!(said["error"], "too_many_redirects");
    assert_eq!(more.requests().len(), 6);
}

/// The public server is listed, the private one behind it is not.
#[tokio::test]
async fn a_redirect_to_a_private_address_is_not_followed() {
    let private = Server::start(vec![]).await;
    let port = private.address.port();
    for to in [
        format!("http://127.0.0.2:{port}/"),
        format!("http://[::ffff:127.0.0.2]:{port}/"),
        format!("http://0x7f000002:{port}/"),
        format!("http://0:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ] {
        let server = Server::start(vec![redirect(302, &to)]).await;
        let said = failed(get(&reaching(&["127.0.0.1"], vec![]), &server.url("/")).await);
        assert_eq!(said["error"], "address_refused", "{to}: {said}");
    }
    assert!(private.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_to_one_of_our_own_ports_is_not_followed() {
    let api = Server::start(vec![]).await;
    let server = Server::start(vec![redirect(307, &api.url("/v1/approvals/x/decision"))]).await;
    let args = json!({ "method": "POST", "url": server.url("/"), "body": "yes" });
    let said = failed(run(&http(vec![api.address.port()]), args).await);
    assert_eq!(said["error"], "address_refused", "{said}");
    assert!(api.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_to_no_web_address_is_refused() {
    for to in ["file:///etc/passwd", "ftp://127.0.0.1/", "http://a:b@127.0.0.1/", "http://"] {
        let server = Server::start(vec![redirect(302, to)]).await;
        let said = failed(get(&http(vec![]), &server.url("/")).await);
        assert_eq!(said["error"], "redirect_refused", "{to}: {said}");
    }
}

#[tokio::test]
async fn only_307_and_308_repeat_the_request() {
    for (status, repeats) in [(301, false), (302, false), (303, false), (307, true), (308, true)] {
        let server = Server::start(vec![redirect(status, "/next"), answer(200, "", "")]).await;
        let args = json!({ "method": "POST", "url": server.url("/"), "body": "act" });
        succeeded(run(&http(vec![]), args).await);
        let [_, second] = server.requests().try_into().unwrap();
        assert_eq!(second.starts_with("POST /next "), repeats, "{status}: {second}");
        assert_eq!(second.ends_with("act"), repeats, "{status}: {second}");
    }
}

#[tokio::test]
async fn credentials_stay_with_the_origin_they_were_meant_for() {
    let other = Server::start(vec![answer(200, "", "")]).await;
    let server =
        Server::start(vec![redirect(302, "/same"), redirect(302, &other.url("/other"))]).await;
    let args = json!({
        "method": "GET",
        "url": server.url("/"),
        "headers": {
            "Authorization": "Bearer sesame",
            "X-Token": "sesame",
            "Accept": "text/plain",
        },
    });

    succeeded(run(&http(vec![]), args).await);

    let [_, same] = server.requests().try_into().unwrap();
    assert!(same.contains("Bearer sesame") && same.contains("x-token"), "{same}");
    let [elsewhere] = other.requests().try_into().unwrap();
    assert!(!elsewhere.contains("sesame"), "{elsewhere}");
    assert!(elsewhere.contains("accept: text/plain"), "{elsewhere}");
}

#[tokio::test]
async fn an_answer_that_only_looks_like_a_redirect_is_final() {
    let server = Server::start(vec![answer(304, "location: /next\r\n", "")]).await;
    assert_eq!(succeeded(get(&http(vec![]), &server.url("/")).await)["status"], 304);
    let server = Server::start(vec![answer(302, "", "")]).await;
    assert_eq!(succeeded(get(&http(vec![]), &server.url("/")).await)["status"], 302);
}
