use std::time::Duration;

use portcullis_proto::decision::{Decision, Signature, Verdict};
use portcullis_proto::ids::{Nonce, Subject};
use portcullis_proto::time::Ms;
use tokio::sync::oneshot;

use super::*;
use crate::deliveries::HOLD_MS_MAX;
use crate::fake::{Asked, Given, START_MS, Stage, Trouble, is_approved, pair, settings};

fn decision(asked: &Asked, verdict: Verdict) -> Decision {
    Decision {
        v: 1,
        approval_id: asked.approval.clone(),
        nonce: asked.nonce,
        args_hash: asked.args_hash,
        verdict,
        approver: Subject::new("alice").unwrap(),
        channel: Channel::Amqp,
        issued_at: Ms(START_MS),
        reason: None,
    }
}

fn signed(decision: Decision, seed: u8) -> Vec<u8> {
    let sig = Signature(pair(seed).sign(&decision.signed_bytes()).as_ref().try_into().unwrap());
    serde_json::to_vec(&SignedDecision { decision, key_id: "alice-key".into(), sig }).unwrap()
}

async fn given(told: oneshot::Receiver<Given>) -> Given {
    tokio::time::timeout(Duration::from_secs(1_000), told).await.expect("settled").unwrap()
}

/// Gives the scheduler a minute, and checks that it holds on to the delivery.
async fn is_held(told: &mut oneshot::Receiver<Given>) -> bool {
    tokio::time::timeout(Duration::from_secs(60), told).await.is_err()
}

/// A stage whose scheduler consumes decisions until the token is cancelled.
fn consuming() -> (Stage, CancellationToken) {
    let (stage, stop) = (Stage::new(), CancellationToken::new());
    tokio::spawn(Arc::clone(&stage.scheduler).run(stop.clone()));
    (stage, stop)
}

#[test]
fn each_delivery_has_one_settlement() {
    let cases = [
        (Received::Counted, Settlement::Ack),
        (Received::Rejected(Reject::WrongNonce), Settlement::Ack),
        (Received::NoStore(StepError::Contended), Settlement::Hold),
        (Received::Undecodable(DecisionError::UnknownVersion(2)), Settlement::DeadLetter),
        (Received::WrongChannel, Settlement::DeadLetter),
    ];
    for (received, settlement) in cases {
        assert_eq!(settle(&received), settlement, "{received:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_signed_decision_is_counted_and_acked_and_its_copy_acked_too() {
    let (stage, _stop) = consuming();
    let asked = stage.ask("a").await;
    let body = signed(decision(&asked, Verdict::Approve), 2);
    for _ in 0..2 {
        let told = stage.bus.deliver(Source::Decisions, &body).await;
        assert_eq!(given(told).await, Given::Acked);
        assert!(is_approved(&stage, &asked).await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_count_is_settled_and_changes_nothing() {
    let (stage, _stop) = consuming();
    let asked = stage.ask("a").await;
    let approve = || decision(&asked, Verdict::Approve);
    let cases = [
        (signed(approve(), 3), Given::Acked),
        (signed(Decision { nonce: Nonce([0; 16]), ..approve() }, 2), Given::Acked),
        (signed(Decision { approver: Subject::new("bob").unwrap(), ..approve() }, 2), Given::Acked),
        (
            signed(
                Decision {
                    approval_id: format!("{}.5.1", asked.run).parse().unwrap(),
                    ..approve()
                },
                2,
            ),
            Given::Acked,
        ),
        (signed(Decision { channel: Channel::Http, ..approve() }, 2), Given::Dead),
        (signed(Decision { v: 2, ..approve() }, 2), Given::Dead),
        (b"{}".to_vec(), Given::Dead),
        (vec![b' '; 10_000], Given::Dead),
    ];
    for (place, (body, settlement)) in cases.into_iter().enumerate() {
        let told = stage.bus.deliver(Source::Decisions, &body).await;
        assert_eq!(given(told).await, settlement, "case {place}");
        assert!(!is_approved(&stage, &asked).await, "case {place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subject_that_left_the_pool_no_longer_decides() {
    let mut left = settings();
    for pool in left.roster.pools.values_mut() {
        pool.members.retain(|member| member.as_str() != "alice");
    }
    let stage = Stage::with(left);
    tokio::spawn(Arc::clone(&stage.scheduler).run(CancellationToken::new()));
    let asked = stage.ask("a").await;
    let body = signed(decision(&asked, Verdict::Approve), 2);
    let told = stage.bus.deliver(Source::Decisions, &body).await;
    assert_eq!(given(told).await, Given::Acked);
    assert!(!is_approved(&stage, &asked).await);
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_held_while_the_store_is_down() {
    let (stage, _stop) = consuming();
    let asked = stage.ask("a").await;
    stage.store.trouble(Some(Trouble::Down));
    let body = signed(decision(&asked, Verdict::Approve), 2);
    let mut told = stage.bus.deliver(Source::Decisions, &body).await;
    assert!(is_held(&mut told).await, "neither acked nor given back");
    stage.store.trouble(None);
    assert_eq!(given(told).await, Given::Acked);
    assert!(is_approved(&stage, &asked).await);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_could_be_lost_is_not_acked() {
    let (stage, _stop) = consuming();
    let asked = stage.ask("a").await;
    stage.store.trouble(Some(Trouble::NotDurable));
    let body = signed(decision(&asked, Verdict::Approve), 2);
    let mut told = stage.bus.deliver(Source::Decisions, &body).await;
    assert!(is_held(&mut told).await);
    stage.store.trouble(None);
    assert_eq!(given(told).await, Given::Acked);
}

#[tokio::test(start_paused = true)]
async fn after_ten_minutes_without_a_store_it_is_given_back() {
    let (stage, _stop) = consuming();
    let asked = stage.ask("a").await;
    stage.store.trouble(Some(Trouble::Down));
    let body = signed(decision(&asked, Verdict::Approve), 2);
    let mut told = stage.bus.deliver(Source::Decisions, &body).await;
    assert!(is_held(&mut told).await);
    stage.store.advance(HOLD_MS_MAX);
    assert_eq!(given(told).await, Given::Back);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_is_held() {
    let (stage, stop) = consuming();
    let asked = stage.ask("a").await;
    stage.store.trouble(Some(Trouble::Down));
    let body = signed(decision(&asked, Verdict::Approve), 2);
    let mut told = stage.bus.deliver(Source::Decisions, &body).await;
    assert!(is_held(&mut told).await);
    stop.cancel();
    assert_eq!(given(told).await, Given::Back);
}
