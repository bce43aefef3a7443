//! A worker that is frozen longer than its lease does nothing more to the run when it thaws.

use portcullis_tests::processes::{Agent, Installation, Setup, facts, outcome};
use serde_json::Value;

use super::{plain, waiter};

const GIVEN_UP: &str = "claim given up";

#[tokio::test(flavor = "multi_thread")]
async fn frozen_with_a_tool_that_ends_meanwhile_it_cannot_record_that() {
    let site = Installation::distributed(&Setup::of(vec![waiter()]));
    let desk = site.scheduler(0).await;
    let first = site.worker(0).await;
    let id = desk.run("waiter", Value::Null).await;
    site.until_effects("begun", 1).await;
    first.pause();
    let _second = site.worker(1).await;
    // The tool is another process, and goes on.
    site.signal("go");
    site.signal("end");
    site.until_effects("acted", 1).await;
    let before = desk.ended(&id).await;
    assert_eq!(outcome(&before), ("interrupted", "outcome_unknown"));
    first.resume();
    first.await_line(GIVEN_UP);
    let after = desk.show(&id).await;
    assert_eq!((&after["history"], &after["calls"]), (&before["history"], &before["calls"]));
    assert_eq!(site.effects.lines(), ["begun", "acted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_while_another_worker_repeats_its_call_it_adds_nothing_to_that() {
    let script = "echo \"$PORTCULLIS_IDEMPOTENCY_KEY\" >> effects.log; \
                  until [ -e end ]; do sleep 0.02; done";
    let agent = Agent::new("repeatable").runs(script).timed("3s", "6s").idempotent();
    let site = Installation::distributed(&Setup::of(vec![agent]));
    let desk = site.scheduler(0).await;
    let first = site.worker(0).await;
    let id = desk.run("repeatable", Value::Null).await;
    let key = format!("{id}/0");
    site.until_effects(&key, 1).await;
    first.pause();
    let _second = site.worker(1).await;
    site.until_effects(&key, 2).await;
    site.signal("end");
    let before = desk.ended(&id).await;
    assert_eq!(outcome(&before), ("succeeded", "done"));
    first.resume();
    first.await_line(GIVEN_UP);
    let after = desk.show(&id).await;
    assert_eq!(after["history"], before["history"]);
    let times = |what| facts(&after).iter().filter(|fact| **fact == what).count();
    assert_eq!((times("started"), times("retried"), times("finished")), (2, 1, 1));
    assert_eq!(site.effects.count(&key), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_between_reading_a_run_and_claiming_it_the_claim_fails() {
    let mut site = Installation::distributed(&Setup::of(vec![plain()]));
    let desk = site.scheduler(0).await;
    let first = site.worker(0).await;
    first.pause();
    let id = desk.run("plain", Value::Null).await;
    site.servers().redis.pause().unwrap();
    first.resume();
    first.until_busy(1).await;
    first.pause();
    site.servers().redis.resume().unwrap();
    // No wake comes to the second one: it looks by itself.
    let _second = site.worker(1).await;
    let before = desk.ended(&id).await;
    assert_eq!(outcome(&before), ("succeeded", "done"));
    first.resume();
    first.until_busy(0).await;
    assert_eq!(desk.show(&id).await["history"], before["history"]);
    assert_eq!(site.effects.lines(), [id]);
}
