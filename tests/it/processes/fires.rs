//! Two schedulers, one fire.

use portcullis_tests::processes::{Api, Installation, Setup, outcome, until};
use serde_json::Value;

use super::{ms, plain};

async fn fired(api: &Api) -> u64 {
    let told = api.get("/v1/reminders").await.1;
    told["reminders"][0]["fired"].as_u64().unwrap_or(0)
}

fn instants(runs: &[Value]) -> Vec<i64> {
    let mut instants: Vec<i64> =
        runs.iter().map(|run| ms(&run["origin"]["reminder"]["instant"])).collect();
    instants.sort_unstable();
    instants
}

#[tokio::test(flavor = "multi_thread")]
async fn two_schedulers_fire_each_instant_once_also_when_one_is_killed() {
    let every_second = "[reminders.second]\nagent = \"plain\"\nevery = \"1s\"\n\
                        overlap = \"allow\"\ncatch_up = \"all\"\n";
    let setup = Setup { triggers: every_second.to_owned(), ..Setup::of(vec![plain()]) };
    let site = Installation::distributed(&setup);
    let mut first = site.scheduler(0).await;
    let second = site.scheduler(1).await;
    let _worker = site.worker(0).await;
    until("both have fired for a while", async || 3 <= fired(&second).await).await;
    first.kill9();
    let before = fired(&second).await;
    until("the other goes on alone", async || before + 3 <= fired(&second).await).await;
    let runs = second.runs().await;
    let instants = instants(&runs);
    assert!(6 <= instants.len());
    // Neither one twice, nor one left out.
    for pair in instants.windows(2) {
        assert_eq!(pair[1] - pair[0], 1_000, "{instants:?}");
    }
    for run in &runs {
        let id = run["run_id"].as_str().unwrap();
        assert_eq!(outcome(&second.ended(id).await), ("succeeded", "done"));
        assert_eq!(site.effects.count(id), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_schedulers_killed_in_turn_fire_each_instant_once() {
    let every_second = "[reminders.second]\nagent = \"plain\"\nevery = \"1s\"\n\
                        overlap = \"allow\"\ncatch_up = \"all\"\n";
    let setup = Setup { triggers: every_second.to_owned(), ..Setup::of(vec![plain()]) };
    let site = Installation::distributed(&setup);
    let mut desks = [site.scheduler(0).await, site.scheduler(1).await, site.scheduler(2).await];
    let _worker = site.worker(0).await;
    for place in 0..desks.len() {
        let other = (place + 1) % desks.len();
        let before = fired(&desks[other]).await;
        desks[place].kill9();
        until("the others go on", async || before + 2 <= fired(&desks[other]).await).await;
        desks[place] = site.scheduler(place).await;
    }
    let runs = desks[0].runs().await;
    let instants = instants(&runs);
    for pair in instants.windows(2) {
        assert_eq!(pair[1] - pair[0], 1_000, "{instants:?}");
    }
    for run in &runs {
        let id = run["run_id"].as_str().unwrap();
        assert_eq!(outcome(&desks[0].ended(id).await), ("succeeded", "done"));
        assert_eq!(site.effects.count(id), 1);
    }
}
