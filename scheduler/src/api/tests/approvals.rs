use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use portcullis_proto::decision::Channel;
use portcullis_proto::run::Event;
use serde_json::json;

use crate::fake::{
    ALICE, Asked, BOB, MALLORY, START_MS, Stage, TOKEN, Trouble, is_approved, settings,
};
use crate::settings::Settings;

#[tokio::test]
async fn open_requests_are_listed_the_most_urgent_first() {
    let stage = Stage::new();
    let first = stage.ask("a").await;
    stage.store.advance(60_000);
    let second = stage.ask("b").await;
    let told = stage.get("/v1/approvals").await.json;
    let open = told["approvals"].as_array().unwrap();
    let ids: Vec<_> = open.iter().map(|a| a["approval_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [first.approval.as_str(), second.approval.as_str()]);
    assert_eq!(open[0]["seconds_left"], 1_740.0);
    assert_eq!((&open[0]["state"], &open[0]["pool"]), (&json!("requested"), &json!("ops")));
    assert_eq!(open[0]["args"]["inline"], json!({ "to": "a" }));
    assert_eq!(stage.get("/v1/approvals?pool=other").await.json["approvals"], json!([]));
    // Past its deadline a request is open on no screen, whether or not anybody swept.
    stage.store.advance(1_740_000);
    let told = stage.get("/v1/approvals").await.json;
    assert_eq!(told["approvals"].as_array().unwrap().len(), 1);
    let told = stage.get(&format!("/v1/approvals/{}", first.approval)).await.json;
    assert_eq!(told["denial"]["code"], "approval_timed_out");
    assert_eq!(told["seconds_left"], 0.0);
}

#[tokio::test]
async fn an_approval_lets_the_call_run_and_names_who_gave_it() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let request = Request::post(format!("/v1/approvals/{}/decision", asked.approval))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {ALICE}"))
        .header("portcullis-channel", "cli");
    let body = json!({ "verdict": "approve", "nonce": asked.nonce, "args_hash": asked.args_hash });
    let told = stage.send(request.body(Body::from(body.to_string())).unwrap()).await;
    assert_eq!((told.status.as_u16(), &told.json["state"]), (200, &json!("approved")), "{told:?}");
    assert_eq!(told.json["already"], json!(false));
    assert_eq!(told.json["votes"][0]["by"], "alice");
    assert_eq!(told.json["votes"][0]["channel"], "cli");
    let (held, _) = stage.engine.load(&asked.run).await.unwrap();
    let held = held.unwrap();
    let (call, approval) = held.run().approval(&asked.approval).unwrap();
    assert!(call.is_runnable());
    let signed = &approval.votes[0].signed;
    assert_eq!(signed.decision.channel, Channel::Cli);
    settings().keys.verify(signed).expect("the worker will check the signature again");
}

#[tokio::test]
async fn a_denial_is_final_and_gives_its_reason() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let path = format!("/v1/approvals/{}/decision", asked.approval);
    let body = json!({ "verdict": "deny", "nonce": asked.nonce, "args_hash": asked.args_hash,
        "reason": "not today" });
    let told = stage.post(&path, Some(BOB), body).await;
    assert_eq!(
        (&told.json["state"], &told.json["denial"]["code"]),
        (&json!("refused"), &json!("denied"))
    );
    assert_eq!(told.json["denial"]["by"], "bob");
    assert_eq!(told.json["denial"]["detail"], "not today");
    assert_eq!(stage.decide(&asked, ALICE, "approve").await.no(), (409, "already_decided"));
    assert!(!is_approved(&stage, &asked).await);
}

#[tokio::test]
async fn nobody_decides_without_an_approvers_credential_on_loopback_too() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let path = format!("/v1/approvals/{}/decision", asked.approval);
    let body = json!({ "verdict": "approve", "nonce": asked.nonce, "args_hash": asked.args_hash });
    let told = stage.post(&path, None, body.clone()).await;
    assert_eq!(told.no(), (401, "no_credential"));
    assert_eq!(told.headers["www-authenticate"], "Bearer realm=\"portcullis\"");
    let guess = stage.post(&path, Some("guess"), body.clone()).await;
    assert_eq!(guess.no(), (401, "unknown_token"));
    assert_eq!(stage.post(&path, Some(TOKEN), body).await.no(), (403, "not_an_approver"));
    assert_eq!(stage.decide(&asked, MALLORY, "approve").await.no(), (403, "not_eligible"));
    assert!(!is_approved(&stage, &asked).await);
}

#[tokio::test]
async fn membership_counts_as_it_is_now() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let check = async |change: fn(&mut Settings)| {
        let mut changed = settings();
        change(&mut changed);
        stage.another(changed).decide(&asked, ALICE, "approve").await.no().0
    };
    let left_the_pool: fn(&mut Settings) = |s| {
        s.roster.pools.values_mut().for_each(|pool| pool.members.retain(|m| m.as_str() != "alice"))
    };
    assert_eq!(check(left_the_pool).await, 403);
    assert_eq!(check(|s| s.approvers[0].pools.clear()).await, 403, "the token speaks for no pool");
    assert_eq!(check(|s| s.approvers[0].token_sha256.clear()).await, 401);
    assert_eq!(check(|s| s.notary = None).await, 503);
    assert_eq!(check(|s| s.keys = Arc::default()).await, 503, "nobody trusts the notary");
    assert!(!is_approved(&stage, &asked).await);
    assert_eq!(check(|_| {}).await, 200);
}

#[tokio::test]
async fn a_decision_is_for_exactly_what_was_shown() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let other = stage.ask("b").await;
    let path = format!("/v1/approvals/{}/decision", asked.approval);
    let nonce = "00000000000000000000000000000000";
    let cases = [
        (
            json!({ "verdict": "approve", "nonce": nonce, "args_hash": asked.args_hash }),
            "wrong_nonce",
        ),
        (
            json!({ "verdict": "approve", "nonce": asked.nonce, "args_hash": other.args_hash }),
            "wrong_args",
        ),
        (
            json!({ "verdict": "maybe", "nonce": asked.nonce, "args_hash": asked.args_hash }),
            "bad_body",
        ),
        (json!({ "verdict": "approve", "nonce": asked.nonce }), "bad_body"),
        (json!({ "verdict": "approve", "nonce": "x", "args_hash": asked.args_hash }), "bad_body"),
        (
            json!({ "verdict": "approve", "nonce": asked.nonce, "args_hash": asked.args_hash,
                "force": true }),
            "bad_body",
        ),
        (
            json!({ "verdict": "approve", "nonce": asked.nonce, "args_hash": asked.args_hash,
                "reason": "x".repeat(1_025) }),
            "bad_reason",
        ),
    ];
    for (body, code) in cases {
        let told = stage.post(&path, Some(ALICE), body.clone()).await;
        assert_eq!(told.no(), (422, code), "{body}");
    }
    assert!(!is_approved(&stage, &asked).await, "and the request stays open");
    assert_eq!(stage.decide(&asked, ALICE, "approve").await.status, 200);
}

#[tokio::test]
async fn a_decision_on_nothing_is_404_and_a_late_one_410() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    for id in [
        format!("{}.7.1", asked.run),
        format!("{}.0.9", asked.run),
        format!("s00-{}.0.1", "a".repeat(26)),
    ] {
        let lost = Asked { approval: id.parse().unwrap(), run: asked.run.clone(), ..asked };
        assert_eq!(
            stage.decide(&lost, ALICE, "approve").await.no(),
            (404, "unknown_approval"),
            "{id}"
        );
        let told = stage.get(&format!("/v1/approvals/{id}")).await;
        assert_eq!(told.no(), (404, "unknown_approval"));
    }
    stage.store.advance(1_800_000);
    let late = stage.decide(&asked, ALICE, "approve").await;
    assert_eq!(late.no(), (410, "late"));
    let message = late.json["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the request expired at 2026-"), "{message}");
    assert!(!is_approved(&stage, &asked).await);
}

#[tokio::test]
async fn the_same_decision_again_is_answered_the_same() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    assert_eq!(stage.decide(&asked, ALICE, "approve").await.json["already"], json!(false));
    let again = stage.decide(&asked, ALICE, "approve").await;
    assert_eq!((again.status.as_u16(), &again.json["already"]), (200, &json!(true)));
    assert_eq!(again.json["votes"].as_array().unwrap().len(), 1);
    assert_eq!(stage.decide(&asked, ALICE, "deny").await.no(), (409, "already_decided"));
    assert_eq!(stage.decide(&asked, BOB, "deny").await.no(), (409, "already_decided"));
}

#[tokio::test]
async fn no_decision_is_acknowledged_that_could_be_lost() {
    for (trouble, code) in [
        (Trouble::Down, "store_unavailable"),
        (Trouble::NotDurable, "not_durable"),
        (Trouble::RepliesLost, "outcome_unknown"),
        (Trouble::ClockLags, "clock_unsteady"),
    ] {
        let stage = Stage::new();
        let asked = stage.ask("a").await;
        stage.store.trouble(Some(trouble));
        let first = stage.decide(&asked, ALICE, "approve").await;
        assert_eq!(first.no(), (503, code));
        let again = stage.decide(&asked, ALICE, "approve").await;
        assert_eq!(again.no(), (503, code), "asking twice is no way round");
        stage.store.trouble(None);
        assert_eq!(stage.decide(&asked, ALICE, "approve").await.status, 200, "{code}");
    }
}

#[tokio::test]
async fn a_revoked_licence_denies() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    stage.store.revoke(&asked.approval);
    assert_eq!(stage.decide(&asked, ALICE, "approve").await.no(), (409, "already_decided"));
    let told = stage.get(&format!("/v1/approvals/{}", asked.approval)).await.json;
    assert_eq!(told["denial"]["code"], "licence_gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_decisions_at_once_one_counts() {
    let stage = Arc::new(Stage::new());
    let asked = Arc::new(stage.ask("a").await);
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let (stage, asked) = (Arc::clone(&stage), Arc::clone(&asked));
            let token = if n % 2 == 0 { ALICE } else { BOB };
            let verdict = if n % 4 < 2 { "approve" } else { "deny" };
            tokio::spawn(async move { stage.decide(&asked, token, verdict).await })
        })
        .collect();
    let mut counted = 0;
    for task in tasks {
        let told = task.await.unwrap();
        match told.status.as_u16() {
            200 if told.json["already"] == json!(false) => counted += 1,
            200 | 409 => {}
            // So many at once may also be told to come again: that is no yes.
            503 => assert_eq!(told.no(), (503, "contended")),
            _ => panic!("{told:?}"),
        }
    }
    assert_eq!(counted, 1);
    let (held, _) = stage.engine.load(&asked.run).await.unwrap();
    let votes = held.unwrap().run().approval(&asked.approval).unwrap().1.votes.len();
    assert_eq!(votes, 1);
}

#[tokio::test]
async fn every_open_wait_says_who_must_act_and_when_it_ends_by_itself() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let queued = stage.start("b").await;
    let told = stage.get("/v1/waits").await.json;
    assert_eq!((&told["live_runs"], &told["more"]), (&json!(2), &json!(false)));
    let waits = told["waits"].as_array().unwrap();
    assert_eq!(waits.len(), 2);
    assert_eq!(waits[0]["approval_id"], json!(asked.approval));
    assert_eq!(waits[0]["who"], "pool ops: 1 of alice, bob");
    assert_eq!(waits[0]["ends_at"], START_MS + 1_800_000);
    assert_eq!((&waits[1]["run_id"], &waits[1]["for"]), (&json!(queued), &json!("worker")));
    assert_eq!(waits[1]["ends_at"], START_MS + 3_600_000);
    assert_eq!(stage.get("/v1/waits?limit=1").await.json["more"], json!(true));
}

#[tokio::test]
async fn the_first_deadline_shown_is_the_runs_timer() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let check = async |what: &str| {
        let (held, _) = stage.engine.load(&asked.run).await.unwrap();
        let held = held.unwrap();
        let shown = crate::view::deadlines(held.run());
        let first = shown.first().map(|deadline| deadline.at);
        assert_eq!(first, portcullis_proto::run::next_deadline(held.run()), "{what}");
    };
    check("requested").await;
    stage.decide(&asked, ALICE, "approve").await;
    check("approved and queued").await;
    let claim = portcullis_proto::ids::ClaimId([3; 16]);
    let parentage = portcullis_proto::run::Parentage::None;
    stage.engine.send(&asked.run, &[Event::Claim { claim, parentage }]).await.unwrap();
    check("running").await;
    let release = Event::Release { claim, backoff_ms: Some(5_000), why: "later".into() };
    stage.engine.send(&asked.run, &[release]).await.unwrap();
    check("backoff").await;
    stage.post(&format!("/v1/runs/{}/cancel", asked.run), None, json!({})).await;
    check("ended").await;
}
