//! The store is emptied under running processes: nothing is accepted, nothing runs, nobody starts.

use std::time::SystemTime;

use lapin::options::ExchangeDeleteOptions;
use portcullis_tests::processes::{Api, Installation, Setup, outcome, signed_hook, until};
use serde_json::json;

use super::plain;

fn setup() -> Setup {
    let route = "[webhooks.push]\nagent = \"plain\"\n\
                 verify = { scheme = \"standard-webhooks\", secret_file = \"data/hook.secret\" }\n";
    Setup { triggers: route.to_owned(), ..Setup::of(vec![plain()]) }
}

async fn deliver(api: &Api, id: &str) -> (u16, Option<String>) {
    let body = format!("{{\"delivery\":\"{id}\"}}");
    let (status, _, later) =
        api.hook("push", &signed_hook(id, SystemTime::now(), &body), &body).await;
    (status, later)
}

async fn empty(url: &str) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
}

/// As an operator does who gives the old runs up.
async fn forget_installation(url: &str) {
    let connection = lapin::Connection::connect(url, lapin::ConnectionProperties::default());
    let connection = connection.await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let options = ExchangeDeleteOptions::default();
    channel.exchange_delete("portcullis.installed".into(), options).await.unwrap();
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_store_takes_nothing_runs_nothing_and_starts_only_when_it_is_given_up() {
    let mut site = Installation::distributed(&setup());
    let mut crew = site.start().await;
    let before = crew.run("plain", json!({})).await;
    assert_eq!(outcome(&crew.ended(&before).await), ("succeeded", "done"));

    empty(&site.servers().redis.url()).await;
    // Not even as a message on the broker: what is kept there would run under another history.
    let (status, later) = deliver(&crew, "msg-1").await;
    assert_eq!(status, 503);
    let seconds: u64 = later.expect("Retry-After").parse().unwrap();
    assert!((1..=3_600).contains(&seconds), "{seconds}");
    assert!(crew.try_run("plain", json!({})).await.is_err());
    assert!(!crew.is_ok("/readyz").await);

    // A process that starts now refuses to, and says why.
    let mut late = site.launch("scheduler", site.desk_port(1));
    assert_eq!(late.exit_code(), Some(1), "{}", late.log());
    assert!(late.log().contains("EPOCH"), "{}", late.log());

    // The runs are given up: everything starts afresh.
    crew.kill9();
    forget_installation(&site.bus_url()).await;
    let crew = site.start().await;
    let (status, _) = deliver(&crew, "msg-2").await;
    assert_eq!(status, 202);
    until("it has run", async || site.effects.lines().len() == 2).await;
}
