//! A sender gets one answer it can rely on: this run, or not now.

use std::time::{Duration, SystemTime};

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{
    Agent, Api, Installation, JOB_QUEUES, Setup, outcome, signed_hook,
};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::{on_both_homes, plain};

on_both_homes! {
    a_signed_delivery_is_a_run_and_its_repetition_the_same_run
}

fn setup(agents: Vec<Agent>) -> Setup {
    let route = "[webhooks.push]\nagent = \"plain\"\n\
                 verify = { scheme = \"standard-webhooks\", secret_file = \"data/hook.secret\" }\n";
    Setup { triggers: route.to_owned(), ..Setup::of(agents) }
}

/// Delivers as a genuine sender does.
async fn deliver(api: &Api, id: &str) -> (u16, Value, Option<String>) {
    let body = format!("{{\"delivery\":\"{id}\"}}");
    api.hook("push", &signed_hook(id, SystemTime::now(), &body), &body).await
}

fn run_of(answer: &Value) -> String {
    answer["run_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn a_signed_delivery_is_a_run_and_its_repetition_the_same_run(kind: Kind) {
    let site = Installation::of(kind, &setup(vec![plain()]));
    let crew = site.start().await;
    let (status, first, _) = deliver(&crew, "msg-1").await;
    assert_eq!((status, &first["duplicate"]), (202, &json!(false)), "{first}");
    let id = run_of(&first);
    let run = crew.ended(&id).await;
    assert_eq!(outcome(&run), ("succeeded", "done"));
    assert_eq!(run["input"]["inline"], json!({ "delivery": "msg-1" }));
    let (status, again, _) = deliver(&crew, "msg-1").await;
    assert_eq!((status, again), (202, json!({ "run_id": id, "duplicate": true })));

    let now = SystemTime::now();
    let body = "{\"delivery\":\"msg-2\"}";
    let of_another_body = signed_hook("msg-2", now, "{\"delivery\":\"msg-1\"}");
    let too_old = signed_hook("msg-2", now - Duration::from_secs(3_600), body);
    for (headers, code) in [
        (of_another_body, "signature_mismatch"),
        (too_old, "timestamp_out_of_range"),
        (Vec::new(), "signature_missing"),
    ] {
        let (status, told, _) = crew.hook("push", &headers, body).await;
        assert_eq!(status, 401, "{code}: {told}");
        assert!(told["run_id"].is_null());
    }
    assert_eq!(crew.runs().await.len(), 1);
    assert_eq!(site.effects.lines(), [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_the_broker_keeps_a_delivery_and_without_both_the_sender_does() {
    let mut site = Installation::with_own_broker(&setup(vec![plain()]));
    let crew = site.start().await;
    let (status, before, _) = deliver(&crew, "before").await;
    assert_eq!(status, 202, "{before}");
    let queues: Vec<&str> = JOB_QUEUES.into_iter().chain(["jobs.intake"]).collect();
    site.servers().broker.own().await_queues_on_disk(&queues).unwrap();

    block_in_place(|| site.servers().redis.kill9().unwrap());
    let (status, during, _) = deliver(&crew, "during").await;
    assert_eq!(status, 202, "{during}");
    // The sender is impatient, and sends it again.
    assert_eq!(run_of(&deliver(&crew, "during").await.1), run_of(&during));

    block_in_place(|| site.servers().broker.own().kill9().unwrap());
    let (status, refused, later) = deliver(&crew, "refused").await;
    assert_eq!(status, 503, "{refused}");
    let seconds = later.expect("it says when to come again").parse::<u32>().unwrap();
    assert!((1..=60).contains(&seconds));

    block_in_place(|| {
        site.servers().redis.restart().unwrap();
        site.servers().broker.own().restart().unwrap();
    });
    let mut ids = vec![run_of(&before), run_of(&during)];
    crew.desk.await_ready().await;
    let (status, refused, _) = deliver(&crew, "refused").await;
    assert_eq!((status, &refused["duplicate"]), (202, &json!(false)), "nothing of it was kept");
    ids.push(run_of(&refused));
    for id in &ids {
        assert_eq!(outcome(&crew.ended(id).await), ("succeeded", "done"));
        assert_eq!(site.effects.count(id), 1);
    }
    let (status, again, _) = deliver(&crew, "during").await;
    assert_eq!((status, again), (202, json!({ "run_id": ids[1], "duplicate": true })));
    assert_eq!(site.effects.lines().len(), 3);
}
