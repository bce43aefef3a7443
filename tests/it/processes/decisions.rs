//! What counts as a yes: in time, from the right person, on exactly this request.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{
    Api, Approver, Installation, Listening, Setup, Signing, denials, outcome,
};
use serde_json::{Value, json};

use super::{asker, gated, ms, on_both_homes};

on_both_homes! {
    the_deadline_is_exact_by_the_stores_clock
    what_is_decided_over_http_must_fit_the_request
}

/// Decides so many milliseconds after the deadline of a request: the answer's status.
async fn decide_at(api: Api, request: Value, after_ms: i64) -> u16 {
    let at = u64::try_from(ms(&request["deadline"]) + after_ms).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // sleep: until the very instant that the test is about
    tokio::time::sleep(Duration::from_millis(at).saturating_sub(now)).await;
    api.decide(&request, "alice", "approve").await.0
}

async fn the_deadline_is_exact_by_the_stores_clock(kind: Kind) {
    let setup = Setup { approval_seconds: 4.0, slots: 16, ..Setup::of(vec![asker()]) };
    let site = Installation::of(kind, &setup);
    let crew = site.start().await;
    // Two that are surely in time, some on the edge on either side.
    let offsets = [-1_000, -1_000, -50, -50, -50, -50, 50, 50, 50, 50];
    let mut asked = Vec::new();
    for after_ms in offsets {
        let id = crew.run("asker", json!({})).await;
        asked.push((id, after_ms));
    }
    let mut deciding = Vec::new();
    for (id, after_ms) in asked {
        let request = crew.asked(&id).await;
        let deciding_at = tokio::spawn(decide_at(site.api(0), request, after_ms));
        deciding.push((id, after_ms, deciding_at));
    }
    for (id, after_ms, deciding) in deciding {
        let status = deciding.await.unwrap();
        let run = crew.ended(&id).await;
        let approval = &run["calls"][0]["approval"];
        match status {
            200 => {
                assert!(after_ms < 0, "{run:#}");
                assert!(ms(&approval["votes"][0]["at"]) < ms(&approval["deadline"]), "{run:#}");
                assert_eq!(outcome(&run), ("succeeded", "done"));
                assert_eq!(site.effects.count(&gated(&id)), 1);
            }
            410 => {
                // Under load a decision may be sent in time and committed too late.
                assert!(-1_000 < after_ms, "{run:#}");
                assert_eq!(denials(&run), ["approval_timed_out"]);
                assert_eq!(approval["votes"].as_array().unwrap().len(), 0);
                assert_eq!(site.effects.count(&gated(&id)), 0);
            }
            other => panic!("{other}: {run:#}"),
        }
    }
}

async fn what_is_decided_over_http_must_fit_the_request(kind: Kind) {
    let site = Installation::of(kind, &Setup::of(vec![asker()]));
    let crew = site.start().await;
    let id = crew.run("asker", json!({})).await;
    let request = crew.asked(&id).await;
    let other = crew.run("asker", json!({})).await;
    let other = crew.asked(&other).await;
    let with = |key: &str| {
        let mut wrong = request.clone();
        wrong[key] = other[key].clone();
        wrong
    };
    for (wrong, code) in [(with("nonce"), "wrong_nonce"), (with("args_hash"), "wrong_args")] {
        let (status, told) = crew.decide(&wrong, "alice", "approve").await;
        assert_eq!((status, &told["error"]["code"]), (422, &json!(code)));
    }
    let (status, told) = crew.decide(&request, "mallory", "approve").await;
    assert_eq!((status, &told["error"]["code"]), (401, &json!("unknown_token")));
    let path = format!("/v1/approvals/{}/decision", request["approval_id"].as_str().unwrap());
    let body = json!({
        "verdict": "approve", "nonce": request["nonce"], "args_hash": request["args_hash"],
    });
    let (status, told) = crew.post(&path, None, &body).await;
    assert_eq!((status, &told["error"]["code"]), (401, &json!("no_credential")));
    let still = crew.approval(request["approval_id"].as_str().unwrap()).await;
    assert_eq!((&still["state"], &still["votes"]), (&json!("requested"), &json!([])));
    assert_eq!(site.effects.lines(), [""; 0]);
    assert_eq!(crew.decide(&request, "alice", "approve").await.0, 200);
    assert_eq!(outcome(&crew.ended(&id).await), ("succeeded", "done"));
    assert_eq!(site.effects.lines(), [gated(&id)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_replayed_and_misdirected_decisions_over_amqp_change_nothing() {
    let site = Installation::distributed(&Setup::of(vec![asker()]));
    let crew = site.start().await;
    let mut listening = Listening::at(&site.bus_url()).await;
    let id = crew.run("asker", json!({})).await;
    let request = listening.next().await;
    let _other = crew.run("asker", json!({})).await;
    let other = listening.next().await;
    let carol = Approver::carol();
    let right = Signing::of(&request, "approve");
    let forged = Approver::impostor().sign(&request, &right);
    let replayed =
        carol.sign(&request, &Signing { nonce: other["nonce"].clone(), ..right.clone() });
    let other_hash = other["args_hash"].clone();
    let misdirected = carol.sign(&request, &Signing { args_hash: other_hash, ..right.clone() });
    let deny = Signing { verdict: "deny", ..right.clone() };
    let forged_no = Approver::impostor().sign(&request, &deny);
    let mut changed: Value = serde_json::from_slice(&carol.sign(&request, &deny)).unwrap();
    changed["decision"]["verdict"] = json!("approve");
    for (decision, code, count) in [
        (forged, "forged", 1.0),
        (replayed, "wrong_nonce", 1.0),
        (misdirected, "wrong_args", 1.0),
        (forged_no, "forged", 2.0),
        (serde_json::to_vec(&changed).unwrap(), "forged", 3.0),
        (b"{}".to_vec(), "undecodable", 1.0),
    ] {
        listening.send(&request, &decision).await;
        let answer = format!("answer=\"{code}\"");
        crew.until_metric("portcullis_decisions_total", &answer, count).await;
    }
    let still = crew.approval(request["approval_id"].as_str().unwrap()).await;
    assert_eq!((&still["state"], &still["votes"]), (&json!("requested"), &json!([])));
    assert_eq!(site.effects.lines(), [""; 0]);
    listening.send(&request, &carol.sign(&request, &right)).await;
    let run = crew.ended(&id).await;
    assert_eq!(outcome(&run), ("succeeded", "done"));
    assert_eq!(run["calls"][0]["approval"]["votes"][0]["channel"], "amqp");
    assert_eq!(site.effects.lines(), [gated(&id)]);
}
