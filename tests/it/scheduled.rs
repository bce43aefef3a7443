//! From a trigger to an honest end, through the HTTP server as an outsider sees it, on both homes.

mod amqp;
mod desk;
mod server;

use portcullis_proto::call::Call;
use portcullis_proto::ids::RunId;
use portcullis_proto::policy::Pool;
use portcullis_proto::run::{Outcome, Run};
use portcullis_tests::home::{AgentBuilder, Home, Kind, Plan};
use serde_json::{Value, json};

use self::desk::{Desk, every_second};

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
    a_signed_webhook_runs_to_its_end_and_its_replay_is_the_same_run
    two_schedulers_fire_each_instant_once
    an_approval_over_http_lets_the_call_run_once_and_the_stream_tells_it
    a_token_is_no_more_than_its_pool
    who_was_asked_first_still_counts_when_others_are_asked_as_well
}

fn plain() -> AgentBuilder {
    AgentBuilder::new("plain").step(vec![("act", json!({ "line": "{{ input.what }}" }))])
}

fn asker() -> AgentBuilder {
    AgentBuilder::new("asker").step(vec![("asks", json!({ "line": "gated" }))])
}

fn id_of(answer: &Value) -> RunId {
    answer["run_id"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}

async fn a_signed_webhook_runs_to_its_end_and_its_replay_is_the_same_run(kind: Kind) {
    let home = Home::of(kind, Plan::of(vec![plain()])).await;
    let desk = Desk::open(&home, |_| {}).await;
    let (status, first) = desk.hook(r#"{"what":"hello"}"#).await;
    assert_eq!((status, &first["duplicate"]), (202, &json!(false)));
    let run = home.ended(&id_of(&first)).await;
    assert_eq!(run.ended().unwrap().outcome, Outcome::Succeeded);
    let (status, again) = desk.hook(r#"{"what":"hello"}"#).await;
    assert_eq!((status, again), (202, json!({ "run_id": run.id, "duplicate": true })));
    assert_eq!(home.effects.lines(), ["hello"]);
    let listed = desk.get("/v1/runs?phase=ended").await.1;
    assert_eq!(listed["runs"][0]["outcome"], "succeeded");
    desk.close().await;
    home.stop().await;
}

async fn two_schedulers_fire_each_instant_once(kind: Kind) {
    let home = Home::of(kind, Plan::of(vec![plain()])).await;
    let first = Desk::open(&home, every_second).await;
    let second = Desk::open(&home, every_second).await;
    first
        .until("three instants fired", async || {
            let told = second.get("/v1/reminders").await.1;
            told["reminders"][0]["fired"].as_u64().is_some_and(|fired| 3 <= fired)
        })
        .await;
    second.close().await;
    first.close().await;
    let told = Desk::open(&home, |_| {}).await;
    let runs = told.get("/v1/runs?limit=100").await.1["runs"].as_array().unwrap().clone();
    let mut instants: Vec<i64> =
        runs.iter().map(|run| run["origin"]["reminder"]["instant"].as_i64().unwrap()).collect();
    instants.sort_unstable();
    let fired = instants.len();
    instants.dedup();
    assert_eq!(instants.len(), fired, "one run per instant");
    assert!(instants.iter().all(|instant| instant % 1_000 == 0));
    for run in &runs {
        home.ended(&id_of(run)).await;
    }
    assert_eq!(home.effects.count("tick"), fired, "and each acted once");
    told.close().await;
    home.stop().await;
}

async fn an_approval_over_http_lets_the_call_run_once_and_the_stream_tells_it(kind: Kind) {
    let home = Home::of(kind, Plan::of(vec![asker()])).await;
    let desk = Desk::open(&home, |_| {}).await;
    let mut events = desk.follow().await;
    let (status, started) = desk.post("/v1/runs", None, json!({ "agent": "asker" })).await;
    assert_eq!(status, 202, "{started}");
    let id = id_of(&started);
    events.until("asked").await;
    home.asked(&id).await;
    let open = desk.get("/v1/approvals").await.1["approvals"][0].clone();
    assert_eq!((&open["run_id"], &open["state"]), (&json!(id), &json!("requested")));
    let waits = desk.get("/v1/waits").await.1;
    assert_eq!(waits["waits"][0]["approval_id"], open["approval_id"]);
    let (status, decided) = desk.decide(&open, "alice", "approve").await;
    assert_eq!((status, &decided["votes"][0]["by"]), (200, &json!("alice")), "{decided}");
    let run = home.ended(&id).await;
    assert_eq!(run.ended().unwrap().outcome, Outcome::Succeeded);
    assert_eq!(home.effects.lines(), ["gated"]);
    let seen = events.until("ended").await;
    let places = ["voted", "approved", "started", "finished", "ended"]
        .map(|name| seen.iter().position(|event| event == name));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{seen:?}");
    let shown = desk.get(&format!("/v1/runs/{id}")).await.1;
    assert_eq!(shown["calls"][0]["approval"]["state"], "used");
    desk.close().await;
    home.stop().await;
}

async fn a_token_is_no_more_than_its_pool(kind: Kind) {
    let home = Home::of(kind, Plan::of(vec![asker()])).await;
    let desk = Desk::open(&home, |_| {}).await;
    let started = desk.post("/v1/runs", None, json!({ "agent": "asker" })).await.1;
    let id = id_of(&started);
    home.asked(&id).await;
    let open = desk.get("/v1/approvals").await.1["approvals"][0].clone();
    for (who, refused) in [("nobody", 401), ("mallory", 403)] {
        let (status, told) = desk.decide(&open, who, "approve").await;
        assert_eq!(status, refused, "{told}");
    }
    let (status, told) = desk.decide(&open, "bob", "deny").await;
    assert_eq!((status, &told["denial"]["by"]), (200, &json!("bob")), "{told}");
    let (status, told) = desk.decide(&open, "alice", "approve").await;
    assert_eq!(status, 409, "{told}");
    let run = home.ended(&id).await;
    assert_eq!(run.ended().unwrap().outcome, Outcome::CompletedWithDenials);
    assert_eq!(home.effects.lines(), [""; 0]);
    desk.close().await;
    home.stop().await;
}

async fn who_was_asked_first_still_counts_when_others_are_asked_as_well(kind: Kind) {
    let mut plan = Plan::of(vec![asker().escalates(20, "deputies")]);
    let deputies = vec!["carol".parse().unwrap()];
    let pool = Pool { members: deputies.clone(), inbox: deputies };
    plan.roster.pools.insert("deputies".parse().unwrap(), pool);
    let home = Home::of(kind, plan).await;
    let desk = Desk::open(&home, |_| {}).await;
    let started = desk.post("/v1/runs", None, json!({ "agent": "asker" })).await.1;
    let id = id_of(&started);
    let asks_deputies = |run: &Run| {
        let approval = run.calls.first().and_then(Call::approval);
        approval.is_some_and(|approval| approval.pool.as_str() == "deputies")
    };
    home.until(&id, "the deputies are asked", asks_deputies).await;
    let open = desk.get("/v1/approvals").await.1["approvals"][0].clone();
    let (status, told) = desk.decide(&open, "mallory", "approve").await;
    assert_eq!(status, 403, "{told}");
    let (status, told) = desk.decide(&open, "alice", "approve").await;
    assert_eq!((status, &told["votes"][0]["by"]), (200, &json!("alice")), "{told}");
    assert_eq!(home.ended(&id).await.ended().unwrap().outcome, Outcome::Succeeded);
    assert_eq!(home.effects.lines(), ["gated"]);
    desk.close().await;
    home.stop().await;
}
