//! Messages may come twice, thrice and in any order: they decide nothing.

use portcullis_proto::digest::Digest;
use portcullis_tests::processes::{
    Approver, Installation, Listening, Running, Setup, Signing, denials, facts, outcome,
    take_wakes, throw_wakes,
};
use serde_json::{Value, json};

use super::{asker, gated, plain};

/// Three copies of each message, in an order of their own.
fn tripled(wakes: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let copies = wakes.iter().flat_map(|wake| (0..3_u8).map(move |copy| (copy, wake.clone())));
    let mut copies: Vec<_> = copies.collect();
    copies.sort_by_key(|(copy, (_, body))| Digest::of_fields(&[&[*copy], body]).0);
    copies.into_iter().map(|(_, wake)| wake).collect()
}

/// Takes what rings for these runs, and throws all of it in three times.
async fn triple(url: &str, runs: &[String]) {
    throw_wakes(url, &tripled(take_wakes(url, runs).await)).await;
}

async fn stop(mut workers: [Running; 2]) {
    for worker in &mut workers {
        worker.terminate();
        assert_eq!(worker.exit_code(), Some(0));
    }
}

fn times(run: &Value, fact: &str) -> usize {
    facts(run).iter().filter(|found| **found == fact).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wake_comes_three_times_and_shuffled_and_each_run_acts_once() {
    let setup = Setup { approval_seconds: 60.0, ..Setup::of(vec![plain(), asker()]) };
    let site = Installation::distributed(&setup);
    let (desk, url) = (site.scheduler(0).await, site.bus_url());
    let (mut runs, mut askers) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        runs.push(desk.run("plain", json!({})).await);
    }
    for _ in 0..4 {
        askers.push(desk.run("asker", json!({})).await);
    }
    triple(&url, &[runs.clone(), askers.clone()].concat()).await;
    let workers = [site.worker(0).await, site.worker(1).await];
    for id in &runs {
        let run = desk.ended(id).await;
        assert_eq!(outcome(&run), ("succeeded", "done"));
        assert_eq!((times(&run, "claimed"), times(&run, "started")), (1, 1), "{run:#}");
        assert_eq!(site.effects.count(id), 1);
    }
    let mut requests = Vec::new();
    for id in &askers {
        requests.push(desk.asked(id).await);
    }
    stop(workers).await;
    for (n, request) in requests.iter().enumerate() {
        let verdict = if n == 0 { "deny" } else { "approve" };
        assert_eq!(desk.decide(request, "bob", verdict).await.0, 200);
    }
    // The denied one has ended without a worker.
    triple(&url, &askers[1..]).await;
    let workers = [site.worker(0).await, site.worker(1).await];
    for (n, id) in askers.iter().enumerate() {
        let run = desk.ended(id).await;
        assert_eq!(times(&run, "started"), usize::from(n != 0), "{run:#}");
        assert_eq!(site.effects.count(&gated(id)), usize::from(n != 0));
        assert_eq!(times(&run, "claimed"), 1 + usize::from(n != 0), "{run:#}");
    }
    stop(workers).await;
    assert_eq!(site.effects.lines().len(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_comes_three_times_counts_once_and_its_opposite_not_at_all() {
    let site = Installation::distributed(&Setup::of(vec![asker()]));
    let crew = site.start().await;
    let mut listening = Listening::at(&site.bus_url()).await;
    let id = crew.run("asker", json!({})).await;
    let request = listening.next().await;
    let carol = Approver::carol();
    let deny = carol.sign(&request, &Signing::of(&request, "deny"));
    let approve = carol.sign(&request, &Signing::of(&request, "approve"));
    for decision in [&deny, &deny, &deny] {
        listening.send(&request, decision).await;
    }
    crew.until_metric("portcullis_decisions_total", "answer=\"already_so\"", 2.0).await;
    listening.send(&request, &approve).await;
    crew.until_metric("portcullis_decisions_total", "answer=\"already_decided\"", 1.0).await;
    let run = crew.ended(&id).await;
    assert_eq!(denials(&run), ["denied"]);
    assert_eq!(run["calls"][0]["denial"]["by"], "carol");
    assert_eq!((times(&run, "voted"), site.effects.lines().len()), (1, 0));
}
