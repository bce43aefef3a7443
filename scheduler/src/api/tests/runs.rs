use axum::body::Body;
use axum::http::Request;
use portcullis_engine::ports::Condition;
use portcullis_proto::run::{Event, Outcome};
use serde_json::{Value, json};

use crate::fake::{ALICE, BOB, START_MS, Stage, Trouble, session};

fn start() -> Value {
    json!({ "agent": "greeter", "input": { "name": "Ada" } })
}

#[tokio::test]
async fn a_start_is_answered_with_its_run_and_the_run_is_queued() {
    let stage = Stage::new();
    let told = stage.post("/v1/runs", None, start()).await;
    assert_eq!((told.status.as_u16(), &told.json["duplicate"]), (202, &json!(false)));
    let id = told.json["run_id"].as_str().unwrap();
    let run = stage.get(&format!("/v1/runs/{id}")).await.json;
    assert_eq!((&run["phase"], &run["agent"]), (&json!("queued"), &json!("greeter")));
    assert_eq!(run["input"]["inline"], json!({ "name": "Ada" }));
    assert_eq!(run["attendance"], json!("unattended"));
    assert_eq!(run["history"][0]["what"], "accepted");
    assert_eq!(run["next"]["what"], "ring");
    assert_eq!(run["waits"][0]["for"], "worker");
    assert_eq!(run["waits"][0]["ends_at"], START_MS + 3_600_000);
    let trace = run["trace"]["traceparent"].as_str().unwrap();
    assert!(portcullis_proto::job::Trace::of_header(trace).is_some(), "{trace}");
}

#[tokio::test]
async fn the_same_key_is_the_same_run_and_another_job_under_it_is_refused() {
    let stage = Stage::new();
    let with_key = |input: &str| json!({ "agent": "greeter", "input": input });
    let send = async |body: Value| {
        let request = Request::post("/v1/runs")
            .header("content-type", "application/json")
            .header("idempotency-key", "k1");
        stage.send(request.body(Body::from(body.to_string())).unwrap()).await
    };
    let first = send(with_key("a")).await;
    let again = send(with_key("a")).await;
    assert_eq!(again.json, json!({ "run_id": first.json["run_id"], "duplicate": true }));
    assert_eq!(send(with_key("b")).await.no(), (409, "key_reused"));
    let mut other = crate::fake::settings();
    let agent = other.agents.values().next().unwrap().clone();
    other.agents.insert("other".parse().unwrap(), agent);
    let stage = stage.another(other);
    let body = json!({ "agent": "other", "input": "a", "idempotency_key": "k1" });
    assert_eq!(stage.post("/v1/runs", None, body).await.no(), (409, "key_reused"));
    let body = json!({ "agent": "greeter", "input": "a", "idempotency_key": "k1", "tenant": "t" });
    assert_eq!(stage.post("/v1/runs", None, body).await.json["duplicate"], json!(false));
}

#[tokio::test]
async fn a_mistake_is_named_with_its_place() {
    let stage = Stage::new();
    let cases = [
        (json!({ "agent": "nobody" }), (422, "unknown_agent"), "agent"),
        (json!({ "agent": "a b" }), (422, "bad_body"), "agent"),
        (json!({ "agent": "greeter", "inputs": 1 }), (422, "bad_body"), "inputs"),
        (json!({ "input": 1 }), (422, "bad_body"), "body"),
        (json!([]), (422, "bad_body"), "body"),
        (
            json!({ "agent": "greeter", "attended": { "approvr": "x" } }),
            (422, "bad_body"),
            "attended.approvr",
        ),
        (json!({ "agent": "greeter", "idempotency_key": "" }), (422, "bad_key"), "idempotency_key"),
        (
            json!({ "agent": "greeter", "start_by_seconds": 0 }),
            (422, "bad_start_by"),
            "start_by_seconds",
        ),
        (
            json!({ "agent": "greeter", "start_by_seconds": 1e12 }),
            (422, "bad_start_by"),
            "start_by_seconds",
        ),
        (
            json!({ "agent": "greeter", "input": 9_007_199_254_740_993_u64 }),
            (422, "input_not_canonical"),
            "input",
        ),
        (
            json!({ "agent": "greeter", "attended": { "approver": "alice" } }),
            (403, "not_that_approver"),
            "attended.approver",
        ),
    ];
    for (body, no, place) in cases {
        let told = stage.post("/v1/runs", None, body.clone()).await;
        assert_eq!((told.no(), &told.json["error"]["where"]), (no, &json!(place)), "{body}");
        assert!(told.json["error"]["message"].is_string());
    }
    assert_eq!(stage.store.commits(), 0, "nothing was half done");
}

#[tokio::test]
async fn a_body_that_is_not_exactly_one_json_value_is_refused() {
    let stage = Stage::new();
    let send = async |kind: &str, body: &str| {
        let request = Request::post("/v1/runs").header("content-type", kind);
        stage.send(request.body(Body::from(body.to_owned())).unwrap()).await
    };
    let json = "application/json";
    assert_eq!(send("text/plain", "{}").await.no(), (415, "not_json"));
    assert_eq!(send(json, "{").await.no(), (400, "body_not_json"));
    assert_eq!(send(json, r#"{"agent":"a","agent":"b"}"#).await.no(), (400, "body_duplicate_key"));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(send(json, &deep).await.no(), (400, "body_too_deep"));
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    assert_eq!(send(json, &long).await.no(), (413, "body_too_large"));
}

#[tokio::test]
async fn a_session_is_declared_by_its_own_approver_only() {
    let stage = Stage::new();
    let body = json!({ "agent": "greeter", "attended": { "approver": "alice" } });
    let told = stage.post("/v1/runs", Some(BOB), body.clone()).await;
    assert_eq!(told.no(), (403, "not_that_approver"));
    let told = stage.post("/v1/runs", Some(ALICE), body).await;
    let id = told.json["run_id"].as_str().unwrap().parse().unwrap();
    let (held, _) = stage.engine.load(&id).await.unwrap();
    assert_eq!(held.unwrap().run().job.attendance, session("alice"));
}

#[tokio::test]
async fn no_start_is_acknowledged_that_could_be_lost() {
    let stage = Stage::new();
    // Nor can the broker take it.
    stage.bus.condition.send_replace(Condition::Down);
    for (trouble, code) in [
        (Trouble::Down, "store_unavailable"),
        (Trouble::NotDurable, "not_durable"),
        (Trouble::RepliesLost, "outcome_unknown"),
    ] {
        stage.store.trouble(Some(trouble));
        let body = json!({ "agent": "greeter", "idempotency_key": "k" });
        for _ in 0..2 {
            // The second time the record is there: that alone is no yes either.
            let told = stage.post("/v1/runs", None, body.clone()).await;
            assert_eq!(told.no(), (503, code));
            assert!(told.headers.contains_key("retry-after"));
        }
    }
    stage.store.trouble(None);
    let body = json!({ "agent": "greeter", "idempotency_key": "k" });
    let told = stage.post("/v1/runs", None, body).await;
    assert_eq!((told.status.as_u16(), &told.json["duplicate"]), (202, &json!(true)));
}

#[tokio::test]
async fn a_list_shows_every_run_once_newest_first() {
    let stage = Stage::new();
    let mut started = Vec::new();
    for n in 0..23 {
        // Several share a millisecond, over all shards.
        stage.store.advance(i64::from(n % 5 == 0));
        started.push(stage.start(&format!("k{n}")).await.to_string());
    }
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let page = stage.get(&format!("/v1/runs?limit=4{after}")).await.json;
        let rows = page["runs"].as_array().unwrap();
        listed.extend(rows.iter().map(|row| {
            (row["created"].as_i64().unwrap(), row["run_id"].as_str().unwrap().to_owned())
        }));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert!(listed.iter().rev().is_sorted());
    let mut ids: Vec<_> = listed.into_iter().map(|(_, id)| id).collect();
    ids.sort();
    started.sort();
    assert_eq!(ids, started);
}

#[tokio::test]
async fn a_list_can_be_cut_down_to_one_phase() {
    let stage = Stage::new();
    let queued = stage.start("a").await;
    let waiting = stage.ask("b").await.run;
    let of = async |phase: &str| {
        let told = stage.get(&format!("/v1/runs?phase={phase}")).await.json;
        let rows = told["runs"].as_array().unwrap().clone();
        rows.iter().map(|row| row["run_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("queued").await, [queued.to_string()]);
    assert_eq!(of("waiting").await, [waiting.to_string()]);
    assert!(of("ended").await.is_empty());
    for query in ["phase=lost", "limit=0", "limit=501", "limit=x", "after=y", "colour=red"] {
        let told = stage.get(&format!("/v1/runs?{query}")).await;
        assert_eq!(told.no(), (422, "bad_query"), "{query}");
    }
}

#[tokio::test]
async fn a_run_is_shown_as_time_has_decided_it_and_reading_changes_nothing() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let commits = stage.store.commits();
    stage.store.advance(1_800_000);
    let run = stage.get(&format!("/v1/runs/{}", asked.run)).await.json;
    assert_eq!(run["calls"][0]["denial"]["code"], "approval_timed_out");
    assert_eq!(run["phase"], "queued", "its agent is to be told");
    stage.store.advance(7_200_000);
    let run = stage.get(&format!("/v1/runs/{}", asked.run)).await.json;
    assert_eq!((&run["phase"], &run["outcome"]), (&json!("ended"), &json!("timed_out")));
    assert_eq!(run["reason"]["code"], "hard_cap");
    assert_eq!(stage.store.commits(), commits);
}

#[tokio::test]
async fn what_is_not_there_is_told_so() {
    let stage = Stage::new();
    let id = format!("s00-{}", "a".repeat(26));
    assert_eq!(stage.get(&format!("/v1/runs/{id}")).await.no(), (404, "unknown_run"));
    let told = stage.post(&format!("/v1/runs/{id}/cancel"), None, json!({})).await;
    assert_eq!(told.no(), (404, "unknown_run"));
    assert_eq!(stage.get("/v1/runs/nonsense").await.no(), (422, "bad_id"));
    assert_eq!(stage.get("/v1/nonsense").await.no(), (404, "no_such_path"));
    assert_eq!(stage.post("/v1/waits", None, json!({})).await.no(), (405, "wrong_method"));
}

#[tokio::test]
async fn a_run_is_cancelled_once_and_its_request_withdrawn() {
    let stage = Stage::new();
    let asked = stage.ask("a").await;
    let cancel = format!("/v1/runs/{}/cancel", asked.run);
    let told = stage.post(&cancel, None, json!({ "reason": "no longer needed" })).await;
    assert_eq!((told.status.as_u16(), &told.json["outcome"]), (200, &json!("cancelled")));
    let again = stage.post(&cancel, None, json!({})).await;
    assert_eq!((again.status.as_u16(), &again.json["outcome"]), (200, &json!("cancelled")));
    let run = stage.get(&format!("/v1/runs/{}", asked.run)).await.json;
    assert_eq!(run["reason"]["detail"], "no longer needed");
    assert_eq!(run["calls"][0]["denial"]["code"], "withdrawn");
    assert_eq!(stage.decide(&asked, ALICE, "approve").await.no(), (409, "terminal"));
}

#[tokio::test]
async fn a_run_that_ended_by_itself_cannot_be_cancelled() {
    let stage = Stage::new();
    let run = stage.start("a").await;
    stage.store.advance(3_600_000);
    let ended = stage.engine.send(&run, &[Event::Tick]).await.unwrap();
    assert_eq!(ended.run().ended().map(|e| e.outcome), Some(Outcome::Failed));
    let told = stage.post(&format!("/v1/runs/{run}/cancel"), None, json!({})).await;
    assert_eq!(told.no(), (409, "terminal"));
    let told = stage.post(&format!("/v1/runs/{run}/cancel"), None, json!({ "why": 1 })).await;
    assert_eq!(told.no(), (422, "bad_body"));
}

#[tokio::test]
async fn a_long_input_comes_back_whole() {
    let stage = Stage::new();
    let text = "ä".repeat(20_000);
    let body = json!({ "agent": "greeter", "input": { "text": text } });
    let told = stage.post("/v1/runs", None, body).await;
    let id = told.json["run_id"].as_str().unwrap();
    let run = stage.get(&format!("/v1/runs/{id}")).await.json;
    assert_eq!(run["input"]["inline"]["text"], json!(text));
}
