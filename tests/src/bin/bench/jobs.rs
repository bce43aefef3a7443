//! How many plain jobs, and how many approval flows, per second?

use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_proto::decision::Verdict;
use portcullis_tests::home::{AgentBuilder, Home, Kind, Plan};
use serde_json::json;
use tokio::sync::Semaphore;

fn plan(agents: Vec<AgentBuilder>, in_flight: usize) -> Plan {
    Plan { slots: in_flight, ..Plan::of(agents) }
}

/// Waits for a run's end by the feedback that costs least: polling its record, seldom.
async fn await_end(home: &Home, id: &portcullis_proto::ids::RunId) {
    let mut pause = 5;
    loop {
        if !home.run(id).await.is_live() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
        pause = (pause * 2).min(40);
    }
}

pub(crate) async fn jobs(kind: Kind, count: usize, in_flight: usize) {
    let agents = vec![AgentBuilder::new("noop").step(vec![("act", json!({}))])];
    let home = Arc::new(Home::of(kind, plan(agents, in_flight)).await);
    let began = Instant::now();
    let places = Arc::new(Semaphore::new(in_flight));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..count {
        let place = Arc::clone(&places).acquire_owned().await.expect("open");
        let home = Arc::clone(&home);
        tasks.spawn(async move {
            let id = home.start("noop", json!({})).await;
            await_end(&home, &id).await;
            drop(place);
        });
    }
    while tasks.join_next().await.is_some() {}
    let seconds = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = count as f64 / seconds;
    println!(
        "{}",
        json!({"figure": "jobs_per_s", "home": format!("{kind:?}"), "value": rate, "in_flight": in_flight, "n": count})
    );
}

pub(crate) async fn flows(kind: Kind, count: usize, in_flight: usize) {
    let agents = vec![AgentBuilder::new("asker").step(vec![("asks", json!({}))])];
    let home = Arc::new(Home::of(kind, plan(agents, in_flight)).await);
    let began = Instant::now();
    let places = Arc::new(Semaphore::new(in_flight));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..count {
        let place = Arc::clone(&places).acquire_owned().await.expect("open");
        let home = Arc::clone(&home);
        tasks.spawn(async move {
            let id = home.start("asker", json!({})).await;
            let approval = home.asked(&id).await;
            let signed = home.signed(&approval, "alice", Verdict::Approve);
            home.decide(signed).await.expect("it counts");
            await_end(&home, &id).await;
            drop(place);
        });
    }
    while tasks.join_next().await.is_some() {}
    let seconds = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = count as f64 / seconds;
    println!(
        "{}",
        json!({"figure": "flows_per_s", "home": format!("{kind:?}"), "value": rate, "in_flight": in_flight, "n": count})
    );
}
