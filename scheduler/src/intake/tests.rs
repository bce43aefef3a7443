use axum::body::Body;
use axum::http::Request;
use portcullis_engine::ports::Condition;
use portcullis_proto::ids::{Epoch, JobKey};
use portcullis_proto::job::Parent;
use portcullis_proto::time::Ms;
use serde_json::json;

use super::*;
use crate::fake::{Given, Stage, Told, Trouble};

async fn hook(stage: &Stage, body: &'static str) -> Told {
    let request = Request::post("/hooks/open").header("content-type", "application/json");
    stage.send(request.body(Body::from(body)).unwrap()).await
}

/// A scheduler that consumes, and has heard of its store's time.
async fn consuming() -> Stage {
    let stage = Stage::new();
    tokio::spawn(Arc::clone(&stage.scheduler).run(CancellationToken::new()));
    stage.start("warm-up").await;
    stage
}

fn run_of(told: &Told) -> RunId {
    assert_eq!(told.status, 202, "{told:?}");
    told.json["run_id"].as_str().unwrap().parse().unwrap()
}

async fn given(stage: &Stage, body: &[u8]) -> Given {
    let told = stage.bus.deliver(Source::Intake, body).await;
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("settled").unwrap()
}

async fn exists(stage: &Stage, run: &RunId) -> bool {
    stage.engine.load(run).await.unwrap().0.is_some()
}

#[test]
fn each_envelope_has_one_settlement() {
    let run = || RunId::new(format!("s00-{}", "a".repeat(26))).unwrap();
    let cases = [
        (Received::Accepted(run()), Settlement::Ack),
        (Received::Duplicate(run()), Settlement::Ack),
        (Received::Rejected(Reject::KeyReused), Settlement::Ack),
        (Received::NoStore(StepError::Contended), Settlement::Hold),
        (Received::Undecodable(DecodeError::UnknownVersion(2)), Settlement::DeadLetter),
        (Received::OtherEpoch, Settlement::DeadLetter),
        (Received::NoTriggersJob, Settlement::DeadLetter),
    ];
    for (received, settlement) in cases {
        assert_eq!(settle(&received), settlement, "{received:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_down_a_job_is_left_on_the_broker_and_becomes_its_run_later() {
    let stage = consuming().await;
    stage.store.trouble(Some(Trouble::Down));
    let run = run_of(&hook(&stage, r#"{"n":1}"#).await);
    let start = json!({ "agent": "greeter", "idempotency_key": "k" });
    let started = run_of(&stage.post("/v1/runs", None, start.clone()).await);
    let left = stage.bus.published();
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|message| message.route == Route::Intake));
    assert_eq!(left[0].message_id, run.to_string());
    assert_eq!(left[0].headers[0].0, "traceparent");
    stage.store.trouble(None);
    assert!(!exists(&stage, &run).await);
    for message in &left {
        assert_eq!(given(&stage, &message.body).await, Given::Acked);
        assert_eq!(given(&stage, &message.body).await, Given::Acked, "a redelivery is a repeat");
    }
    assert!(exists(&stage, &run).await && exists(&stage, &started).await);
    // The senders' own retries find the same runs.
    assert_eq!(hook(&stage, r#"{"n":1}"#).await.json, json!({ "run_id": run, "duplicate": true }));
    let again = stage.post("/v1/runs", None, start).await.json;
    assert_eq!(again, json!({ "run_id": started, "duplicate": true }));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_stored_after_all_is_only_a_copy_on_the_broker() {
    let stage = consuming().await;
    stage.store.trouble(Some(Trouble::NotDurable));
    let run = run_of(&hook(&stage, "{}").await);
    stage.store.trouble(None);
    let commits = stage.store.commits();
    let left = stage.bus.published();
    assert_eq!(given(&stage, &left[0].body).await, Given::Acked);
    assert!(exists(&stage, &run).await);
    assert_eq!(stage.store.commits(), commits + 1, "confirmed, not made again");
}

#[tokio::test(start_paused = true)]
async fn without_store_and_broker_nothing_is_promised() {
    let stage = consuming().await;
    stage.store.trouble(Some(Trouble::Down));
    for condition in [Condition::Down, Condition::Blocked] {
        stage.bus.condition.send_replace(condition);
        let told = hook(&stage, "{}").await;
        assert_eq!(told.no(), (503, "store_unavailable"));
        assert!(told.headers.contains_key("retry-after"));
    }
    assert!(stage.bus.published().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_never_heard_from_its_store_leaves_nothing() {
    let stage = Stage::new();
    stage.store.trouble(Some(Trouble::Down));
    assert_eq!(hook(&stage, "{}").await.no(), (503, "store_unavailable"));
    assert!(stage.bus.published().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_job_of_this_installation_becomes_no_run() {
    let stage = consuming().await;
    stage.store.trouble(Some(Trouble::Down));
    let run = run_of(&hook(&stage, "{}").await);
    stage.store.trouble(None);
    let ours = envelope::decode(&stage.bus.published()[0].body).unwrap();
    let other = JobEnvelope { epoch: Epoch([2; 16]), ..ours.clone() };
    let mut child = ours.clone();
    child.job.parent = Some(Parent { run: run.clone(), call: 0, depth: 1, hard_cap: Ms(i64::MAX) });
    for envelope in [other, child] {
        let body = envelope::encode(&envelope).unwrap();
        assert_eq!(given(&stage, &body).await, Given::Dead);
    }
    for body in [&b"{}"[..], br#"{"v":9,"kind":"job"}"#, br#"{"v":1,"kind":"wake","runs":[]}"#] {
        assert_eq!(given(&stage, body).await, Given::Dead);
    }
    assert!(!exists(&stage, &run).await);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_too_old_leaves_a_tombstone_and_never_begins() {
    let stage = consuming().await;
    stage.store.trouble(Some(Trouble::Down));
    let run = run_of(&hook(&stage, "{}").await);
    stage.store.trouble(None);
    stage.store.advance(3_600_000);
    assert_eq!(given(&stage, &stage.bus.published()[0].body).await, Given::Acked);
    let (held, _) = stage.engine.load(&run).await.unwrap();
    let held = held.unwrap();
    assert_eq!(held.run().ended().map(|e| e.reason.code.as_str()), Some("expired_in_queue"));
}

#[tokio::test(start_paused = true)]
async fn a_job_under_a_used_key_is_refused() {
    let stage = consuming().await;
    stage.store.trouble(Some(Trouble::Down));
    run_of(&hook(&stage, "{}").await);
    stage.store.trouble(None);
    let mut envelope = envelope::decode(&stage.bus.published()[0].body).unwrap();
    envelope.job.key = JobKey::api(&"default".parse().unwrap(), b"warm-up");
    envelope.job.input_hash = portcullis_proto::digest::Digest::of_bytes(b"other");
    let body = envelope::encode(&envelope).unwrap();
    assert_eq!(given(&stage, &body).await, Given::Acked);
}
