//! Whether somebody is there is said by who starts a run, and children can only give it up.

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{Agent, Crew, Installation, Setup, denials, outcome, token_of};
use serde_json::{Value, json};

use super::{asker, gated, on_both_homes};

on_both_homes! {
    an_attended_run_asks_and_its_child_does_unless_it_is_narrowed
}

/// Starts a run that says who attends it.
async fn attended_by(crew: &Crew, agent: &str, who: &str, token: Option<&str>) -> (u16, Value) {
    let body = json!({ "agent": agent, "input": {}, "attended": { "approver": who } });
    crew.post("/v1/runs", token, &body).await
}

async fn an_attended_run_asks_and_its_child_does_unless_it_is_narrowed(kind: Kind) {
    let agents = vec![
        asker(),
        Agent::new("heir").starts("asker", ""),
        Agent::new("narrower").starts("asker", ", unattended = true"),
    ];
    let site = Installation::of(kind, &Setup { unattended: "deny", ..Setup::of(agents) });
    let crew = site.start().await;

    let alone = crew.run("asker", json!({})).await;
    let run = crew.ended(&alone).await;
    assert_eq!(denials(&run), ["approval_required_unattended"]);

    // Nobody says for somebody else that they are there.
    let bobs = token_of("bob");
    for token in [None, Some(bobs.as_str())] {
        let (status, told) = attended_by(&crew, "asker", "alice", token).await;
        assert_eq!((status, &told["error"]["code"]), (403, &json!("not_that_approver")));
    }

    let alices = token_of("alice");
    let (status, started) = attended_by(&crew, "heir", "alice", Some(&alices)).await;
    assert_eq!(status, 202, "{started}");
    let parent = started["run_id"].as_str().unwrap();
    let waits = |run: &Value| run["waits"][0]["child"].as_str().map(ToOwned::to_owned);
    let waiting = crew.until(parent, "the parent waits", |run| waits(run).is_some()).await;
    let child = waits(&waiting).expect("it was there");
    let request = crew.asked(&child).await;
    assert_eq!(crew.decide(&request, "alice", "approve").await.0, 200);
    assert_eq!(outcome(&crew.ended(parent).await), ("succeeded", "done"));
    let session = json!({ "session": { "approver": "alice" } });
    assert_eq!(crew.show(&child).await["attendance"], session);
    assert_eq!(site.effects.lines(), [gated(&child)]);

    let (status, started) = attended_by(&crew, "narrower", "alice", Some(&alices)).await;
    assert_eq!(status, 202, "{started}");
    let parent = crew.ended(started["run_id"].as_str().unwrap()).await;
    assert_eq!(outcome(&parent), ("completed_with_denials", "denied"));
    assert_eq!(parent["attendance"], session);
    let child = parent["calls"][0]["result"]["inline"]["run"].as_str().unwrap();
    let child = crew.show(child).await;
    assert_eq!(child["attendance"], "unattended");
    assert_eq!(denials(&child), ["approval_required_unattended"]);
    assert_eq!(site.effects.lines().len(), 1);
}
