//! The broker blocks its publishers, or a service holds requests and never answers.

use std::time::SystemTime;

use portcullis_tests::processes::{
    Installation, Listening, People, Setup, denials, outcome, signed_hook,
};
use serde_json::json;
use tokio::task::block_in_place;

use super::{asker, gated, plain};

#[tokio::test(flavor = "multi_thread")]
async fn under_a_memory_alarm_deliveries_are_accepted_and_every_run_acts_once() {
    let route = "[webhooks.push]\nagent = \"plain\"\n\
                 verify = { scheme = \"standard-webhooks\", secret_file = \"data/hook.secret\" }\n";
    let setup = Setup {
        triggers: route.to_owned(),
        approval_seconds: 60.0,
        slots: 1,
        ..Setup::of(vec![plain(), asker()])
    };
    let mut site = Installation::with_own_broker(&setup);
    let crew = site.start().await;
    let parked = crew.run("asker", json!({})).await;
    let request = crew.asked(&parked).await;
    let watermark = |site: &mut Installation, share: &str| {
        let command = ["set_vm_memory_high_watermark", share];
        block_in_place(|| site.servers().broker.own().control(&command).unwrap());
    };
    watermark(&mut site, "0.00001");
    let mut accepted = Vec::new();
    for n in 0..5 {
        let (id, body) = (format!("msg-{n}"), format!("{{\"delivery\":{n}}}"));
        let headers = signed_hook(&id, SystemTime::now(), &body);
        let (status, told, _) = crew.hook("push", &headers, &body).await;
        assert_eq!(status, 202, "{told}");
        accepted.push(told["run_id"].as_str().unwrap().to_owned());
    }
    // A run that wants to publish a request waits in the store: the one slot is free for others.
    let asking = crew.run("asker", json!({})).await;
    let asked = crew.asked(&asking).await;
    assert_eq!(crew.decide(&request, "alice", "approve").await.0, 200);
    assert_eq!(outcome(&crew.ended(&parked).await), ("succeeded", "done"));
    watermark(&mut site, "0.9");
    assert_eq!(crew.decide(&asked, "alice", "approve").await.0, 200);
    assert_eq!(outcome(&crew.ended(&asking).await), ("succeeded", "done"));
    for id in &accepted {
        assert_eq!(outcome(&crew.ended(id).await), ("succeeded", "done"));
        assert_eq!(site.effects.count(id), 1);
    }
    assert_eq!(site.effects.count(&gated(&parked)), 1);
    assert_eq!(site.effects.lines().len(), accepted.len() + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_takes_requests_and_never_answers_is_a_no_in_time() {
    let setup = Setup {
        people: People::ServiceOnly,
        approval_seconds: 3.0,
        slots: 1,
        ..Setup::of(vec![plain(), asker()])
    };
    let site = Installation::distributed(&setup);
    let crew = site.start().await;
    // Bound and consuming: what is published is delivered, and never acknowledged.
    let _deaf = Listening::at(&site.bus_url()).await;
    let waiting = crew.run("asker", json!({})).await;
    crew.asked(&waiting).await;
    let other = crew.run("plain", json!({})).await;
    assert_eq!(outcome(&crew.ended(&other).await), ("succeeded", "done"));
    assert_eq!(crew.show(&waiting).await["phase"], "waiting", "the only slot was free meanwhile");
    let run = crew.ended(&waiting).await;
    assert_eq!(denials(&run), ["approval_timed_out"]);
    assert_eq!(site.effects.lines(), [other]);
}
