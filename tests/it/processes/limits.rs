//! The clocks that run while nobody works: a step's stands still, a run's does not.

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{Installation, Setup, outcome, until};
use serde_json::json;

use super::{asker, gated, ms, on_both_homes};

on_both_homes! {
    a_step_shorter_than_its_wait_for_a_yes_has_all_its_time_left
    the_hard_cap_holds_while_every_process_is_down
}

async fn a_step_shorter_than_its_wait_for_a_yes_has_all_its_time_left(kind: Kind) {
    let site = Installation::of(kind, &Setup::of(vec![asker()]));
    let crew = site.start().await;
    let id = crew.run("asker", json!({})).await;
    let request = crew.asked(&id).await;
    let step_ms = ms(&crew.show(&id).await["limits"]["step_ms"]);
    let longer = ms(&request["asked_at"]) + step_ms + 1_000;
    crew.until(&id, "it waited longer than a step takes", |run| longer < ms(&run["now"])).await;
    assert_eq!(crew.decide(&request, "alice", "approve").await.0, 200);
    assert_eq!(outcome(&crew.ended(&id).await), ("succeeded", "done"));
    assert_eq!(site.effects.lines(), [gated(&id)]);
}

async fn the_hard_cap_holds_while_every_process_is_down(kind: Kind) {
    let agent = asker().limited("hard_cap", "13s");
    // No deadline of its own: the cap alone bounds the wait.
    let setup = Setup { approval_seconds: 0.0, ..Setup::of(vec![agent]) };
    let site = Installation::of(kind, &setup);
    let mut crew = site.start().await;
    let id = crew.run("asker", json!({})).await;
    let request = crew.asked(&id).await;
    let cap = ms(&crew.show(&id).await["hard_cap"]);
    assert!(ms(&request["deadline"]) <= cap - 10_000, "an answer leaves time to act on it");
    crew.kill9();
    until("the cap has passed", async || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        cap < i64::try_from(now.as_millis()).unwrap()
    })
    .await;
    let crew = site.start().await;
    let run = crew.ended(&id).await;
    assert_eq!(outcome(&run), ("timed_out", "hard_cap"));
    assert_eq!(run["attempts"], 0, "it was not claimed again");
    let (status, told) = crew.decide(&request, "alice", "approve").await;
    assert!(status == 410 || status == 409, "{status} {told}");
    assert_eq!(site.effects.lines(), [""; 0]);
}
