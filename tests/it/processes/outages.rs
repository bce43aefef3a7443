//! Redis and RabbitMQ are killed with -9 under load: what was accepted ends, and acts once.

use std::time::{Duration, Instant};

use portcullis_tests::processes::{Api, Installation, JOB_QUEUES, Setup, take_wakes, until};
use portcullis_tests::servers::purge_queue;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, block_in_place};

use super::{asker, assert_effects, gated, plain};

const ASKED: usize = 4;

fn setup() -> Setup {
    Setup { slots: 16, approval_seconds: 60.0, ..Setup::of(vec![plain(), asker()]) }
}

/// Runs that wait for a decision, with their requests.
async fn parked(api: &Api, count: usize) -> Vec<(String, Value)> {
    let mut parked = Vec::new();
    for _ in 0..count {
        let id = api.run("asker", json!({})).await;
        let request = api.asked(&id).await;
        parked.push((id, request));
    }
    parked
}

/// Goes on starting runs, one every 20 ms, until it is told to stop: those that were accepted.
fn starting(api: Api) -> (tokio::sync::oneshot::Sender<()>, JoinHandle<Vec<String>>) {
    let (stop, mut stopped) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut accepted = Vec::new();
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        loop {
            tokio::select! {
                _ = &mut stopped => return accepted,
                _ = pace.tick() => accepted.extend(api.try_run("plain", json!({})).await.ok()),
            }
        }
    });
    (stop, task)
}

async fn all_ended(api: &Api, ids: &[String]) -> Vec<Value> {
    let mut ended = Vec::new();
    for id in ids {
        ended.push(api.ended(id).await);
    }
    ended
}

async fn until_accepted(site: &Installation, more: usize) {
    let before = site.effects.lines().len();
    until("more runs have acted", async || before + more <= site.effects.lines().len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_killed_and_nothing_that_was_accepted_is_lost_or_done_twice() {
    let mut site = Installation::distributed(&setup());
    let crew = site.start().await;
    let waiting = parked(&crew, ASKED).await;
    let (stop, accepted) = starting(site.api(0));
    until_accepted(&site, 10).await;
    block_in_place(|| site.servers().redis.kill9().unwrap());
    // Accepted all the same: the broker keeps the job.
    let meanwhile = crew.run("plain", json!({})).await;
    block_in_place(|| site.servers().redis.restart().unwrap());
    until_accepted(&site, 10).await;
    stop.send(()).unwrap();
    let mut accepted = accepted.await.unwrap();
    accepted.push(meanwhile);
    for (_, request) in &waiting {
        let (status, told) = crew.decide(request, "alice", "approve").await;
        assert_eq!(status, 200, "{told}");
    }
    assert_effects(&site, &all_ended(&crew, &accepted).await, ToOwned::to_owned);
    let waiting: Vec<String> = waiting.into_iter().map(|(id, _)| id).collect();
    assert_effects(&site, &all_ended(&crew, &waiting).await, gated);
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_is_killed_and_nothing_that_was_accepted_is_lost_or_done_twice() {
    let mut site = Installation::with_own_broker(&setup());
    let crew = site.start().await;
    let waiting = parked(&crew, ASKED).await;
    let broker = site.servers().broker.own();
    broker.await_queues_on_disk(&JOB_QUEUES).unwrap();
    let (stop, accepted) = starting(site.api(0));
    until_accepted(&site, 10).await;
    block_in_place(|| site.servers().broker.own().kill9().unwrap());
    // The inbox goes on without the broker, and so does what is accepted.
    for (_, request) in &waiting {
        let (status, told) = crew.decide(request, "alice", "approve").await;
        assert_eq!(status, 200, "{told}");
    }
    let meanwhile = crew.run("plain", json!({})).await;
    // Workers look into the store when nothing rings.
    until_accepted(&site, 10).await;
    block_in_place(|| site.servers().broker.own().restart().unwrap());
    until_accepted(&site, 10).await;
    stop.send(()).unwrap();
    let mut accepted = accepted.await.unwrap();
    accepted.push(meanwhile);
    let ended = all_ended(&crew, &accepted).await;
    assert_effects(&site, &ended, ToOwned::to_owned);
    let waiting: Vec<String> = waiting.into_iter().map(|(id, _)| id).collect();
    assert_effects(&site, &all_ended(&crew, &waiting).await, gated);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_job_queues_are_purged_by_hand_and_every_run_ends_soon_all_the_same() {
    let site = Installation::distributed(&Setup { slots: 2, ..setup() });
    let mut crew = site.start().await;
    let waiting = parked(&crew, ASKED).await;
    crew.worker.take().expect("a worker").kill9();
    let mut runs = Vec::new();
    for _ in 0..12 {
        runs.push(crew.run("plain", json!({})).await);
    }
    for (_, request) in &waiting {
        assert_eq!(crew.decide(request, "alice", "approve").await.0, 200);
    }
    let url = site.bus_url();
    // All of them are there, and then none is.
    let waiting: Vec<String> = waiting.into_iter().map(|(id, _)| id).collect();
    take_wakes(&url, &[runs.clone(), waiting.clone()].concat()).await;
    for queue in JOB_QUEUES {
        purge_queue(&url, queue).await.unwrap();
    }
    let began = Instant::now();
    let _worker = site.worker(0).await;
    assert_effects(&site, &all_ended(&crew, &runs).await, ToOwned::to_owned);
    assert_effects(&site, &all_ended(&crew, &waiting).await, gated);
    // Long before any of their timers rings, which is half a minute after the last wake, and far
    // more of them than the worker has slots.
    assert!(began.elapsed() < Duration::from_secs(12), "it took {:?}", began.elapsed());
}
