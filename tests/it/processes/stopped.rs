//! Stopping in good order, and starting after none.

use std::time::{Duration, Instant};

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{Agent, Installation, Setup, facts, outcome, until};
use serde_json::json;

use super::{asker, gated, on_both_homes, plain, waiter};

on_both_homes! {
    told_to_stop_it_lets_its_tools_finish_and_ends_with_0
}

async fn told_to_stop_it_lets_its_tools_finish_and_ends_with_0(kind: Kind) {
    let site = Installation::of(kind, &Setup::of(vec![waiter().appends("second step")]));
    let mut crew = site.start().await;
    let id = crew.run("waiter", json!({})).await;
    site.until_effects("begun", 1).await;
    crew.working().terminate();
    crew.working().await_line("draining");
    // The API of a process that drains still answers.
    assert_eq!(crew.show(&id).await["phase"], "running");
    site.signal("go");
    site.signal("end");
    let code = match &mut crew.worker {
        Some(worker) => worker.exit_code(),
        None => crew.desk.exit_code(),
    };
    assert_eq!(code, Some(0), "{}", crew.working().log());
    assert_eq!(site.effects.lines(), ["begun", "acted"]);
    drop(crew);
    let crew = site.start().await;
    let run = crew.ended(&id).await;
    assert_eq!(outcome(&run), ("succeeded", "done"));
    assert!(facts(&run).contains(&"released") && !facts(&run).contains(&"lapsed"), "{run:#}");
    assert_eq!(site.effects.lines(), ["begun", "acted", "second step"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_killed_with_runs_of_every_kind_goes_on_with_them_at_its_next_start() {
    let step = waiter().timed("5m", "10m");
    let repeatable = Agent::new("repeatable")
        .runs("echo \"again $0\" >> effects.log; until [ -e end ]; do sleep 0.02; done")
        .timed("5m", "10m")
        .idempotent();
    let setup = Setup { slots: 2, ..Setup::of(vec![step, repeatable, asker(), plain()]) };
    let site = Installation::embedded(&setup);
    let mut up = site.up().await;
    let parked = up.run("asker", json!({})).await;
    let request = up.asked(&parked).await;
    let begun = up.run("waiter", json!({})).await;
    let again = up.run("repeatable", json!({})).await;
    site.until_effects("begun", 1).await;
    site.until_effects(&format!("again {again}"), 1).await;
    // Both slots are taken.
    let queued = up.run("plain", json!({})).await;
    assert_eq!(up.show(&queued).await["phase"], "queued");
    up.kill9();
    site.signal("go");
    site.signal("end");

    let up = site.up().await;
    let restarted = Instant::now();
    assert_eq!(outcome(&up.ended(&begun).await), ("interrupted", "outcome_unknown"));
    assert_eq!(outcome(&up.ended(&queued).await), ("succeeded", "done"));
    assert_eq!(outcome(&up.ended(&again).await), ("succeeded", "done"));
    // Nobody waited for a lease: it would have held for half a minute.
    assert!(restarted.elapsed() < Duration::from_secs(15), "{:?}", restarted.elapsed());
    let still = up.approval(request["approval_id"].as_str().unwrap()).await;
    assert_eq!((&still["state"], &still["nonce"]), (&json!("requested"), &request["nonce"]));
    assert_eq!(up.decide(&request, "alice", "approve").await.0, 200);
    assert_eq!(outcome(&up.ended(&parked).await), ("succeeded", "done"));
    let mut lines = site.effects.lines();
    lines.sort_unstable();
    let twice = format!("again {again}");
    let mut expected = vec!["begun".to_owned(), twice.clone(), twice, queued, gated(&parked)];
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn told_twice_to_stop_it_ends_at_once_and_its_tool_with_it() {
    let site = Installation::distributed(&Setup::of(vec![waiter().timed("5m", "10m")]));
    let desk = site.scheduler(0).await;
    let mut worker = site.worker(0).await;
    let id = desk.run("waiter", json!({})).await;
    site.until_effects("begun", 1).await;
    let began = Instant::now();
    worker.terminate();
    worker.await_line("draining");
    worker.terminate();
    assert_eq!(worker.exit_code(), Some(1), "{}", worker.log());
    assert!(began.elapsed() < Duration::from_secs(8), "the drain takes ten: {:?}", began.elapsed());
    worker.await_tools_gone();
    site.signal("go");
    site.signal("end");
    let _second = site.worker(1).await;
    assert_eq!(outcome(&desk.ended(&id).await), ("interrupted", "outcome_unknown"));
    assert_eq!(site.effects.lines(), ["begun"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_under_load_it_interrupts_nothing() {
    let brief = Agent::new("brief").runs("sleep 0.3; echo $0 >> effects.log").timed("3s", "6s");
    let site = Installation::distributed(&Setup { slots: 6, ..Setup::of(vec![brief]) });
    let desk = site.scheduler(0).await;
    let mut worker = site.worker(0).await;
    let mut ids = Vec::new();
    for _ in 0..24 {
        ids.push(desk.run("brief", json!({})).await);
    }
    until("some have acted", async || 4 <= site.effects.lines().len()).await;
    worker.terminate();
    assert_eq!(worker.exit_code(), Some(0), "{}", worker.log());
    assert!(site.effects.lines().len() < ids.len(), "it was under load until its end");
    let _second = site.worker(1).await;
    for id in &ids {
        let run = desk.ended(id).await;
        assert_eq!(outcome(&run), ("succeeded", "done"));
        assert!(!facts(&run).contains(&"lapsed"), "{run:#}");
        assert_eq!(site.effects.count(id), 1);
    }
}
