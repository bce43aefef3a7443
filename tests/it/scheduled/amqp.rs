//! What only a broker can do: decisions of approver services, and jobs while the store is down.

use portcullis_engine::ports::{Bus as _, Message, Published, Route};
use portcullis_proto::decision::Verdict;
use portcullis_proto::decision::{Channel, Decision, KeyRing, Signature, SignedDecision, Speaker};
use portcullis_proto::run::Outcome;
use portcullis_tests::home::{Home, Plan};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::desk::Desk;
use super::{asker, id_of, plain};

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_its_approver_signed_comes_over_the_bus_and_counts() {
    let home = Home::distributed(Plan::of(vec![asker()])).await;
    let pair = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
    let mut keys = KeyRing::clone(&home.keys);
    let speaker = Speaker::Approver("alice".parse().unwrap());
    assert!(keys.add("alice-key", speaker, pair.public_key().as_ref().try_into().unwrap()));
    let desk = Desk::open(&home, |settings| settings.keys = keys.into()).await;
    let id = home.start("asker", json!({})).await;
    let request = home.asked(&id).await;
    let decision = Decision {
        v: 1,
        approval_id: request.id.clone(),
        nonce: request.nonce,
        args_hash: request.args_hash,
        verdict: Verdict::Deny,
        approver: "alice".parse().unwrap(),
        channel: Channel::Amqp,
        issued_at: request.asked_at,
        reason: Some("not on a Friday".to_owned()),
    };
    let sig = Signature(pair.sign(&decision.signed_bytes()).as_ref().try_into().unwrap());
    let signed = SignedDecision { decision, key_id: "alice-key".to_owned(), sig };
    let message = Message {
        route: Route::Decision { run: id.clone() },
        message_id: "1".to_owned(),
        expiration_ms: None,
        headers: Vec::new(),
        body: serde_json::to_vec(&signed).unwrap().into(),
    };
    let rabbit = &home.servers.as_ref().unwrap().rabbit;
    assert_eq!(rabbit.publish(message).await, Published::Confirmed);
    let run = home.ended(&id).await;
    let denial = run.calls[0].refusal().unwrap();
    assert_eq!(denial.by.as_ref().map(ToString::to_string).as_deref(), Some("alice"));
    assert_eq!(denial.detail.as_deref(), Some("not on a Friday"));
    assert_eq!(home.effects.lines(), [""; 0]);
    desk.close().await;
    home.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_accepted_while_the_store_is_down_and_run_once_it_is_back() {
    let mut home = Home::distributed(Plan::of(vec![plain()])).await;
    let desk = Desk::open(&home, |_| {}).await;
    let (status, before) = desk.hook(r#"{"what":"before"}"#).await;
    assert_eq!(status, 202, "{before}");
    home.servers.as_mut().unwrap().redis.stop().unwrap();
    let (status, during) = desk.hook(r#"{"what":"during"}"#).await;
    assert_eq!(status, 202, "{during}");
    // The sender is impatient, and sends it again.
    assert_eq!(desk.hook(r#"{"what":"during"}"#).await, (202, during.clone()));
    home.servers.as_mut().unwrap().redis.restart().unwrap();
    desk.until("the store is back", async || desk.get("/readyz").await.0 == 200).await;
    desk.until("the job is a run", async || {
        desk.get(&format!("/v1/runs/{}", id_of(&during))).await.0 == 200
    })
    .await;
    let run = home.ended(&id_of(&during)).await;
    assert_eq!(run.ended().unwrap().outcome, Outcome::Succeeded);
    let (status, again) = desk.hook(r#"{"what":"during"}"#).await;
    assert_eq!((status, &again["duplicate"]), (202, &json!(true)));
    assert_eq!(home.effects.count("during"), 1);
    desk.close().await;
    home.stop().await;
}
