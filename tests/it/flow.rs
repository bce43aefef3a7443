//! A run's way through the engine and the worker, the same on both homes.

use portcullis_proto::decision::Verdict;
use portcullis_proto::denial::DenialCode;
use portcullis_proto::job::Attendance;
use portcullis_proto::run::{Outcome, Reject, Run};
use portcullis_tests::home::{AgentBuilder, Home, Kind, Plan, asking_for, roster};
use serde_json::json;

/// Each promise, once on SQLite with the in-process bus and once on Redis with RabbitMQ.
macro_rules! on_both_homes {
    ($($promise:ident)*) => {
        mod embedded {
            use super::Kind;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                super::$promise(Kind::Embedded).await;
            })*
        }
        mod distributed {
            use super::Kind;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                super::$promise(Kind::Distributed).await;
            })*
        }
    };
}

on_both_homes! {
    an_ungated_run_succeeds_and_acts_once
    an_approved_call_runs_once_and_only_then
    silence_is_a_denial_that_names_the_pool_and_the_wait
    a_pool_without_people_denies_at_once
    nobody_in_the_pool_has_an_inbox_and_no_queue_is_bound_denies_at_once
    a_parked_run_leaves_its_only_slot_to_others
    each_call_of_a_turn_goes_its_own_way
    a_parent_waits_parked_for_a_child_that_nobody_answers
    the_hard_cap_holds_while_waiting
    of_twenty_decisions_at_once_exactly_one_counts
    a_free_slot_goes_on_in_the_commit_of_the_decision
}

fn line(text: &str) -> serde_json::Value {
    json!({ "line": text })
}

fn outcome(run: &Run) -> (Outcome, &str) {
    let ended = run.ended().expect("the run has ended");
    (ended.outcome, ended.reason.code.as_str())
}

fn refusals(run: &Run) -> Vec<DenialCode> {
    run.calls.iter().filter_map(|call| call.refusal()).map(|denial| denial.code).collect()
}

async fn an_ungated_run_succeeds_and_acts_once(kind: Kind) {
    let home = Home::of(
        kind,
        Plan::of(vec![AgentBuilder::new("plain").step(vec![("act", line("{{ input.what }}"))])]),
    )
    .await;
    let id = home.start("plain", json!({ "what": "hello" })).await;
    let run = home.ended(&id).await;
    assert_eq!(outcome(&run), (Outcome::Succeeded, "done"));
    assert_eq!(home.effects.lines(), ["hello"]);
    home.stop().await;
}

async fn an_approved_call_runs_once_and_only_then(kind: Kind) {
    let home = Home::of(
        kind,
        Plan::of(vec![AgentBuilder::new("asker").step(vec![("asks", line("gated"))])]),
    )
    .await;
    let id = home.start("asker", json!({})).await;
    let approval = home.asked(&id).await;
    assert_eq!(home.effects.count("gated"), 0);
    home.decide(home.signed(&approval, "alice", Verdict::Approve)).await.unwrap();
    let run = home.ended(&id).await;
    assert_eq!(outcome(&run), (Outcome::Succeeded, "done"));
    assert_eq!(home.effects.count("gated"), 1);
    home.stop().await;
}

async fn silence_is_a_denial_that_names_the_pool_and_the_wait(kind: Kind) {
    let home = Home::of(
        kind,
        Plan::of(vec![AgentBuilder::new("asker").step(vec![("asks", line("gated"))])]),
    )
    .await;
    let limits = asking_for(1_200);
    let id = home.start_with("asker", json!({}), limits, Attendance::Unattended).await;
    let run = home.ended(&id).await;
    assert_eq!(outcome(&run), (Outcome::CompletedWithDenials, "denied"));
    let denial = run.calls[0].refusal().unwrap();
    assert_eq!(denial.code, DenialCode::ApprovalTimedOut);
    assert_eq!(denial.pool.as_ref().map(ToString::to_string).as_deref(), Some("ops"));
    assert_eq!((denial.waited_ms, &denial.by), (Some(1_200), &None));
    assert_eq!(home.effects.lines(), [""; 0]);
    home.stop().await;
}

async fn a_pool_without_people_denies_at_once(kind: Kind) {
    let plan = Plan {
        roster: roster(&[], &[]),
        ..Plan::of(vec![AgentBuilder::new("asker").step(vec![("asks", line("gated"))])])
    };
    let home = Home::of(kind, plan).await;
    let id = home.start("asker", json!({})).await;
    let run = home.ended(&id).await;
    assert_eq!(refusals(&run), [DenialCode::NoApprover]);
    let ended = run.ended().unwrap();
    assert!(ended.at.since(run.created) < 1_000, "{ended:?}");
    home.stop().await;
}

async fn nobody_in_the_pool_has_an_inbox_and_no_queue_is_bound_denies_at_once(kind: Kind) {
    let plan = Plan {
        roster: roster(&["alice"], &[]),
        ..Plan::of(vec![AgentBuilder::new("asker").step(vec![("asks", line("gated"))])])
    };
    let home = Home::of(kind, plan).await;
    let id = home.start("asker", json!({})).await;
    let run = home.ended(&id).await;
    assert_eq!(refusals(&run), [DenialCode::NoApprover]);
    home.stop().await;
}

async fn a_parked_run_leaves_its_only_slot_to_others(kind: Kind) {
    let plan = Plan {
        slots: 1,
        ..Plan::of(vec![
            AgentBuilder::new("asker").step(vec![("asks", line("gated"))]),
            AgentBuilder::new("plain").step(vec![("act", line("other"))]),
        ])
    };
    let home = Home::of(kind, plan).await;
    let parked = home.start("asker", json!({})).await;
    let approval = home.asked(&parked).await;
    let other = home.start("plain", json!({})).await;
    assert_eq!(outcome(&home.ended(&other).await).0, Outcome::Succeeded);
    home.decide(home.signed(&approval, "bob", Verdict::Deny)).await.unwrap();
    let run = home.ended(&parked).await;
    let denial = run.calls[0].refusal().unwrap();
    assert_eq!(denial.code, DenialCode::Denied);
    assert_eq!(denial.by.as_ref().map(ToString::to_string).as_deref(), Some("bob"));
    assert_eq!(home.effects.lines(), ["other"]);
    home.stop().await;
}

async fn each_call_of_a_turn_goes_its_own_way(kind: Kind) {
    let home = Home::of(
        kind,
        Plan::of(vec![
            AgentBuilder::new("mixed")
                .step(vec![
                    ("asks", line("approved")),
                    ("act", line("free-1")),
                    ("asks", line("denied")),
                    ("act", line("free-2")),
                    ("asks", line("silent")),
                ])
                .step(vec![("act", line("next turn"))]),
        ]),
    )
    .await;
    let limits = asking_for(2_500);
    let id = home.start_with("mixed", json!({}), limits, Attendance::Unattended).await;
    let parked = home.until(&id, "it parks", |run| run.phase.name() == "waiting").await;
    assert_eq!(home.effects.lines(), ["free-1", "free-2"], "siblings run meanwhile");
    let request = |seq: usize| parked.calls[seq].approval().unwrap().clone();
    home.decide(home.signed(&request(0), "alice", Verdict::Approve)).await.unwrap();
    home.until(&id, "the approved call runs while others are open", |run| {
        run.calls[0].is_final() && run.calls[4].is_waiting()
    })
    .await;
    home.decide(home.signed(&request(2), "alice", Verdict::Deny)).await.unwrap();
    let run = home.ended(&id).await;
    assert_eq!(outcome(&run), (Outcome::CompletedWithDenials, "denied"));
    assert_eq!(refusals(&run), [DenialCode::Denied, DenialCode::ApprovalTimedOut]);
    assert_eq!(home.effects.lines(), ["free-1", "free-2", "approved", "next turn"]);
    home.stop().await;
}

async fn a_parent_waits_parked_for_a_child_that_nobody_answers(kind: Kind) {
    let plan = Plan {
        roster: roster(&[], &[]),
        slots: 1,
        ..Plan::of(vec![
            AgentBuilder::new("parent")
                .step(vec![("agent", json!({ "agent": "child", "input": {} }))])
                .step(vec![("act", line("parent went on"))]),
            AgentBuilder::new("child").step(vec![("asks", line("gated"))]),
        ])
    };
    let home = Home::of(kind, plan).await;
    let id = home.start("parent", json!({})).await;
    let run = home.ended(&id).await;
    assert_eq!(outcome(&run), (Outcome::CompletedWithDenials, "denied"));
    assert_eq!(home.effects.lines(), ["parent went on"]);
    let took = run.ended().unwrap().at.since(run.created);
    assert!(took < 1_000, "it took {took} ms");
    home.stop().await;
}

async fn the_hard_cap_holds_while_waiting(kind: Kind) {
    let home = Home::of(
        kind,
        Plan::of(vec![AgentBuilder::new("asker").step(vec![("asks", line("gated"))])]),
    )
    .await;
    let limits = portcullis_proto::job::Limits { cap_ms: 12_000, approval_ms: 0, ..asking_for(0) };
    let id = home.start_with("asker", json!({}), limits, Attendance::Unattended).await;
    let approval = home.asked(&id).await;
    let run = home.run(&id).await;
    assert_eq!(approval.deadline, run.hard_cap.minus(10_000), "bounded by the cap alone");
    let run = home.ended(&id).await;
    assert_eq!(refusals(&run), [DenialCode::ApprovalTimedOut]);
    home.stop().await;
}

async fn of_twenty_decisions_at_once_exactly_one_counts(kind: Kind) {
    let home = Home::of(
        kind,
        Plan::of(vec![AgentBuilder::new("asker").step(vec![("asks", line("gated"))])]),
    )
    .await;
    let id = home.start("asker", json!({})).await;
    let approval = home.asked(&id).await;
    let decisions = (0..20).map(|n| {
        let verdict = if n % 2 == 0 { Verdict::Approve } else { Verdict::Deny };
        home.decide(home.signed(&approval, ["alice", "bob"][n % 2], verdict))
    });
    let answers = futures_util::future::join_all(decisions).await;
    let counted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(counted, 1);
    for answer in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        let told = answer.reject();
        assert!(matches!(told, Some(Reject::AlreadySo | Reject::AlreadyDecided)), "{answer}");
    }
    let run = home.ended(&id).await;
    let ran = home.effects.count("gated");
    let approved = run.calls[0].refusal().is_none();
    assert_eq!(ran, usize::from(approved));
    home.stop().await;
}

/// The run as it is after the one commit that a decider is answered with.
async fn a_free_slot_goes_on_in_the_commit_of_the_decision(kind: Kind) {
    let agent = AgentBuilder::new("asker").step(vec![("asks", line("gated"))]);
    let home = Home::of(kind, Plan::of(vec![agent])).await;
    for (verdict, lines) in [(Verdict::Approve, 1), (Verdict::Deny, 0)] {
        let id = home.start("asker", json!({})).await;
        home.until(&id, "it parks", |run| run.phase.name() == "waiting").await;
        let approval = home.asked(&id).await;
        let told = home.decide(home.signed(&approval, "alice", verdict)).await;
        let told = told.expect("it counts, however far the run got in that commit");
        match verdict {
            Verdict::Approve => assert!(told.run().calls[0].is_started(), "{:?}", told.run()),
            Verdict::Deny => assert!(told.run().ended().is_some(), "{:?}", told.run()),
        }
        let run = home.ended(&id).await;
        assert_eq!(usize::from(run.calls[0].tries), lines);
    }
    home.stop().await;
}
