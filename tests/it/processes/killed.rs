//! A worker is killed with -9 in every place where that could matter.

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{Agent, Installation, Setup, facts, outcome};
use serde_json::Value;
use tokio::task::block_in_place;

use super::{on_both_homes, plain, waiter};

on_both_homes! {
    killed_before_its_tool_acted_the_run_is_interrupted_and_the_tool_is_dead
    killed_after_its_tool_acted_the_run_is_interrupted_and_nothing_acts_again
    an_idempotent_call_is_tried_again_with_the_same_key
}

/// Starts whoever works again, and waits for the end of the run.
async fn ended_after_restart(site: &Installation, id: &str) -> Value {
    let crew = site.start().await;
    crew.ended(id).await
}

async fn killed_before_its_tool_acted_the_run_is_interrupted_and_the_tool_is_dead(kind: Kind) {
    let site = Installation::of(kind, &Setup::of(vec![waiter()]));
    let mut crew = site.start().await;
    let id = crew.run("waiter", Value::Null).await;
    site.until_effects("begun", 1).await;
    assert!(!crew.working().tools().is_empty(), "the tool is seen");
    // Waits until the tool is gone as well.
    crew.kill9();
    site.signal("go");
    site.signal("end");
    let run = ended_after_restart(&site, &id).await;
    assert_eq!(outcome(&run), ("interrupted", "outcome_unknown"));
    assert_eq!(site.effects.lines(), ["begun"]);
}

async fn killed_after_its_tool_acted_the_run_is_interrupted_and_nothing_acts_again(kind: Kind) {
    let site = Installation::of(kind, &Setup::of(vec![waiter()]));
    let mut crew = site.start().await;
    site.signal("go");
    let id = crew.run("waiter", Value::Null).await;
    site.until_effects("acted", 1).await;
    crew.kill9();
    site.signal("end");
    let run = ended_after_restart(&site, &id).await;
    assert_eq!(outcome(&run), ("interrupted", "outcome_unknown"));
    assert_eq!(facts(&run).iter().filter(|fact| **fact == "started").count(), 1);
    assert_eq!(site.effects.lines(), ["begun", "acted"]);
}

async fn an_idempotent_call_is_tried_again_with_the_same_key(kind: Kind) {
    let script = "echo \"$PORTCULLIS_IDEMPOTENCY_KEY\" >> effects.log; \
                  until [ -e end ]; do sleep 0.02; done";
    let agent = Agent::new("repeatable").runs(script).timed("3s", "6s").idempotent();
    let site = Installation::of(kind, &Setup::of(vec![agent]));
    let mut crew = site.start().await;
    let id = crew.run("repeatable", Value::Null).await;
    let key = format!("{id}/0");
    site.until_effects(&key, 1).await;
    crew.kill9();
    site.signal("end");
    let run = ended_after_restart(&site, &id).await;
    assert_eq!(outcome(&run), ("succeeded", "done"));
    assert_eq!(run["calls"][0]["tries"], 2);
    assert_eq!(site.effects.lines(), [key.clone(), key]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_start_of_a_call_the_run_goes_to_another_worker_and_acts_once() {
    let mut site = Installation::distributed(&Setup::of(vec![plain()]));
    let desk = site.scheduler(0).await;
    let mut first = site.worker(0).await;
    // The wake reaches the worker, and the worker does not reach the store: nothing is claimed.
    first.pause();
    let id = desk.run("plain", Value::Null).await;
    let redis = &site.servers().redis;
    redis.pause().unwrap();
    first.resume();
    first.until_busy(1).await;
    first.kill9();
    redis.resume().unwrap();
    assert_eq!(desk.show(&id).await["attempts"], 0, "it was never claimed");
    let _second = site.worker(1).await;
    let run = desk.ended(&id).await;
    assert_eq!(outcome(&run), ("succeeded", "done"));
    assert_eq!(site.effects.lines(), [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_the_tools_end_and_its_record_the_run_is_interrupted() {
    let mut site = Installation::distributed(&Setup::of(vec![waiter()]));
    let desk = site.scheduler(0).await;
    let mut first = site.worker(0).await;
    let id = desk.run("waiter", Value::Null).await;
    site.until_effects("begun", 1).await;
    // The tool ends well, and nobody can write that down.
    block_in_place(|| site.servers().redis.kill9().unwrap());
    site.signal("go");
    site.signal("end");
    site.until_effects("acted", 1).await;
    first.await_tools_gone();
    first.kill9();
    block_in_place(|| site.servers().redis.restart().unwrap());
    let _second = site.worker(1).await;
    let run = desk.ended(&id).await;
    assert_eq!(outcome(&run), ("interrupted", "outcome_unknown"));
    assert_eq!(site.effects.lines(), ["begun", "acted"]);
}
