//! Plain jobs and approval flows per second; how long from a decision to the call it lets through.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_proto::decision::Verdict;
use portcullis_tests::home::{AgentBuilder, Home, Kind, Plan};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::counters::{self, Counting};
use crate::figure;
use crate::signal::Signal;
use crate::watch::{Moment, Watch};

fn plan(agent: AgentBuilder, slots: usize) -> Plan {
    Plan { slots, ..Plan::of(vec![agent]) }
}

/// Intake and worker at once: starts jobs as fast as `in_flight` of them end.
pub(crate) async fn jobs(kind: Kind, count: usize, in_flight: usize) {
    let agent = AgentBuilder::new("noop").step(vec![("act", json!({}))]).acting_by(Signal::new());
    let home = Arc::new(Home::of(kind, plan(agent, in_flight)).await);
    figure::state(kind, "durability", &counters::durability(&home).await);
    let watch = Arc::new(Watch::over(&home).await);
    let counting = Counting::start(&home).await;
    let seconds = each(count, in_flight, |_| {
        let (home, watch) = (Arc::clone(&home), Arc::clone(&watch));
        async move {
            let id = home.start("noop", json!({})).await;
            watch.wait(&id, Moment::Ended).await;
        }
    })
    .await;
    let servers = counting.stop(&home).await;
    let more = json!({ "in_flight": in_flight, "n": count, "servers": servers });
    figure::print(kind, "jobs", figure::rate(count, seconds), "1/s", &more);
}

/// Ask, decide, resume, end.
pub(crate) async fn approvals(kind: Kind, count: usize, in_flight: usize) {
    let agent = AgentBuilder::new("asker").step(vec![("asks", json!({}))]).acting_by(Signal::new());
    let home = Arc::new(Home::of(kind, plan(agent, in_flight)).await);
    let watch = Arc::new(Watch::over(&home).await);
    let counting = Counting::start(&home).await;
    let seconds = each(count, in_flight, |_| {
        let (home, watch) = (Arc::clone(&home), Arc::clone(&watch));
        async move {
            let id = home.start("asker", json!({})).await;
            watch.wait(&id, Moment::Parked).await;
            let approval = home.asked(&id).await;
            home.decide(home.signed(&approval, "alice", Verdict::Approve)).await.expect("counts");
            watch.wait(&id, Moment::Ended).await;
        }
    })
    .await;
    let servers = counting.stop(&home).await;
    let more = json!({ "in_flight": in_flight, "n": count, "servers": servers });
    figure::print(kind, "approval_flows", figure::rate(count, seconds), "1/s", &more);
}

async fn each<F>(count: usize, in_flight: usize, one: impl Fn(usize) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(in_flight));
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for n in 0..count {
        let place = Arc::clone(&places).acquire_owned().await.expect("never closed");
        let work = one(n);
        tasks.spawn(async move {
            work.await;
            drop(place);
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    began.elapsed().as_secs_f64()
}

/// From the call of `decide` to the first instruction of the tool, at a steady rate.
pub(crate) async fn decision_to_resumed(kind: Kind, count: usize, per_second: u64) {
    let signal = Signal::new();
    let tool: Arc<Signal> = Arc::clone(&signal);
    let agent = AgentBuilder::new("asker").step(vec![("asks", json!({}))]).acting_by(tool);
    let home = Arc::new(Home::of(kind, plan(agent, 64)).await);
    let watch = Watch::over(&home).await;
    let mut parked = Vec::with_capacity(count);
    for _ in 0..count {
        let id = home.start("asker", json!({})).await;
        watch.wait(&id, Moment::Parked).await;
        parked.push((id.clone(), home.asked(&id).await));
    }
    let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / per_second));
    let mut tasks = JoinSet::new();
    for (id, approval) in parked {
        ticks.tick().await;
        let resumed = signal.of(&id);
        let home = Arc::clone(&home);
        tasks.spawn(async move {
            let signed = home.signed(&approval, "alice", Verdict::Approve);
            let began = Instant::now();
            home.decide(signed).await.expect("counts");
            let resumed = resumed.await.expect("the call begins");
            resumed.duration_since(began).as_secs_f64() * 1_000.0
        });
    }
    let samples = tasks.join_all().await;
    let more = json!({ "rate_per_s": per_second, "n": count });
    figure::percentiles(kind, "decision_to_resumed", samples, &more);
}

/// From the call that accepts a job to its committed end, at a steady rate.
pub(crate) async fn enqueue_to_done(kind: Kind, count: usize, per_second: u64) {
    let agent = AgentBuilder::new("noop").step(vec![("act", json!({}))]).acting_by(Signal::new());
    let home = Arc::new(Home::of(kind, plan(agent, 64)).await);
    let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / per_second));
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        ticks.tick().await;
        let home = Arc::clone(&home);
        tasks.spawn(async move { home.start("noop", json!({})).await });
    }
    let mut samples = Vec::with_capacity(count);
    for id in tasks.join_all().await {
        let run = home.ended(&id).await;
        let ended = run.ended().expect("it has ended").at;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
        samples.push(ended.since(run.created) as f64);
    }
    let more = json!({ "rate_per_s": per_second, "n": count });
    figure::percentiles(kind, "accepted_to_ended", samples, &more);
}
