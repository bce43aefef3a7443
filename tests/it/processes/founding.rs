//! Why all of this exists: reminder → parent → child → gated tool, and nobody is there.

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{
    Agent, Api, Installation, Listening, People, Setup, denials, outcome, until,
};
use serde_json::Value;

use super::{asker, ms, on_both_homes, plain};

on_both_homes! {
    nobody_listens_and_a_reminders_grandchild_is_denied_at_once
}

/// A reminder starts a parent, which starts a child, whose tool must be approved.
fn setup(people: People) -> Setup {
    let parent = Agent::new("parent").starts("asker", "").appends("parent went on");
    let every_second = "[reminders.morning]\nagent = \"parent\"\nevery = \"1s\"\n";
    Setup { people, triggers: every_second.to_owned(), ..Setup::of(vec![parent, asker(), plain()]) }
}

/// The first run that the reminder started, once it is there.
async fn fired(api: &Api) -> Value {
    let mut found = None;
    until("the reminder has fired", async || {
        let runs = api.runs().await;
        found = runs.into_iter().rfind(|run| run["agent"] == "parent" && run["parent"].is_null());
        found.is_some()
    })
    .await;
    found.expect("it was found")
}

fn id(run: &Value) -> &str {
    run["run_id"].as_str().unwrap()
}

async fn nobody_listens_and_a_reminders_grandchild_is_denied_at_once(kind: Kind) {
    // Distributed, `carol` could decide, but has bound no queue. In one process nobody could.
    let people = match kind {
        Kind::Embedded => People::Nobody,
        Kind::Distributed => People::ServiceOnly,
    };
    let site = Installation::of(kind, &setup(people));
    let crew = site.start().await;
    let parent = crew.ended(id(&fired(&crew).await)).await;
    assert_eq!(outcome(&parent), ("completed_with_denials", "denied"));
    assert_eq!(parent["origin"]["reminder"]["name"], "morning");
    let child = parent["calls"][0]["result"]["inline"]["run"].as_str().unwrap();
    let child = crew.show(child).await;
    assert_eq!(outcome(&child), ("completed_with_denials", "denied"));
    assert_eq!(denials(&child), ["no_approver"]);
    let waited = ms(&child["ended"]) - ms(&child["begun"]);
    assert!(waited < 1_000, "the denial took {waited} ms");
    assert_eq!(crew.get("/v1/approvals").await.1["approvals"].as_array().unwrap().len(), 0);
    assert!(site.effects.lines().iter().all(|line| line == "parent went on"));
    assert!(!site.effects.lines().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_approver_is_waited_for_until_the_deadline_and_by_no_worker() {
    let setup = Setup { approval_seconds: 4.0, slots: 1, ..setup(People::ServiceOnly) };
    let site = Installation::distributed(&setup);
    let desk = site.scheduler(0).await;
    let mut carol = Listening::at(&site.bus_url()).await;
    let worker = site.worker(0).await;
    let parent = fired(&desk).await;
    let request = carol.next().await;
    // Parent and child wait, and the only slot is free: another run goes through it meanwhile.
    let child = request["run_id"].as_str().unwrap();
    desk.until(child, "the child is parked", |run| run["phase"] == "waiting").await;
    worker.until_busy(0).await;
    let other = desk.run("plain", Value::Null).await;
    assert_eq!(outcome(&desk.ended(&other).await).0, "succeeded");
    assert_eq!(desk.show(child).await["phase"], "waiting");
    let child = desk.ended(child).await;
    let call = &child["calls"][0];
    assert_eq!(denials(&child), ["approval_timed_out"]);
    assert_eq!(call["denial"]["pool"], "ops");
    assert_eq!(call["denial"]["waited_ms"], 4_000);
    let late = ms(&child["ended"]) - ms(&call["approval"]["deadline"]);
    assert!((0..2_000).contains(&late), "the run went on {late} ms after the deadline");
    let parent = desk.ended(id(&parent)).await;
    assert_eq!(outcome(&parent), ("completed_with_denials", "denied"));
    assert!(!site.effects.lines().iter().any(|line| line.starts_with("gated")));
    // Whichever process was first to see the deadline pass has said so.
    let log = desk.log() + &worker.log();
    let told = log.lines().find(|line| line.contains("approval_timed_out"));
    let told = told.expect("the denial is in the log");
    for part in ["WARN", "pool=\"ops\"", "waited_ms=4000"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
}
