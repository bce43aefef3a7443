//! The same promise for the bus: the shipped users are enough for our own processes.

use bytes::Bytes;
use portcullis_engine::ports::{Bus, Message, Published, Route, Wake};
use portcullis_engine::rabbitmq::{RabbitBus, RabbitSettings, Witness};
use portcullis_proto::ids::{Epoch, JobKey, PoolName, RunId, ShardCount, Tenant};
use portcullis_proto::topology::Lane;
use portcullis_tests::servers::RabbitServer;

use super::rabbitmq::{start, url_of};

const READY_MS_MAX: u64 = 20_000;

async fn bus_of(server: &RabbitServer, user: &str) -> std::sync::Arc<RabbitBus> {
    let bus = RabbitBus::connect(RabbitSettings::new(url_of(server, user), user)).unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
    bus
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_and_a_worker_get_by_with_the_shipped_users() {
    let server = start();
    // The worker first: it declares nothing and finds what the definitions made.
    let worker = bus_of(&server, "worker").await;
    let scheduler = bus_of(&server, "scheduler").await;

    let epoch = Epoch([7; 16]);
    worker.record_epoch(epoch).await.unwrap_err();
    scheduler.record_epoch(epoch).await.unwrap();
    let witness = worker.witness(Some(epoch)).await.unwrap();
    assert_eq!(witness, Witness { installed: true, knows_epoch: true });

    let tenant = Tenant::new("acme").unwrap();
    let run = RunId::of(&JobKey::api(&tenant, b"x"), ShardCount::new(16).unwrap());
    let wake = Wake { lane: Lane::Hi, tenant: tenant.clone(), run: run.clone() };
    assert_eq!(worker.wake(wake).await, Published::Confirmed);

    let message = |route| Message {
        route,
        message_id: "one".to_owned(),
        expiration_ms: None,
        headers: Vec::new(),
        body: Bytes::from_static(b"{}"),
    };
    let pool = PoolName::new("nobody").unwrap();
    let request = message(Route::Approval { tenant, pool, risk: "high" });
    assert_eq!(worker.publish(request).await, Published::Returned);
    let decision = worker.publish(message(Route::Decision { run: run.clone() })).await;
    assert!(!matches!(decision, Published::Confirmed), "a worker decided: {decision:?}");
    let decision = scheduler.publish(message(Route::Decision { run })).await;
    assert_eq!(decision, Published::Confirmed);
}
