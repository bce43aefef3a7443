//! What the broker says about a message is told of that message, and of no other.

use std::collections::BTreeSet;
use std::sync::Arc;

use lapin::options::{BasicGetOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Connection, ConnectionProperties};
use portcullis_engine::ports::{Bus, Message, Published, Route, Source};
use portcullis_engine::rabbitmq::{RabbitBus, RabbitSettings};
use portcullis_proto::topology::{self, Lane};
use portcullis_tests::conformance::bus::{
    consume, next, request, ring, ring_many, run, runs_of, wake_of,
};
use portcullis_tests::servers::{Management, Vhost, await_queue_depth, shared_rabbit};
use serde_json::json;

use super::{READY_MS_MAX, bus, settings};

/// Somebody else's channel, such as an approver service's.
pub(super) async fn stranger(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    connection.create_channel().await.unwrap()
}

/// A durable queue bound to the topic of requests.
pub(super) async fn approver_queue(url: &str, key: &str, arguments: FieldTable) -> String {
    let channel = stranger(url).await;
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let queue: ShortString = format!("approvals.{}", key.replace(['*', '#'], "any")).into();
    channel.queue_declare(queue.clone(), options, arguments).await.unwrap();
    let (exchange, key) = (topology::APPROVALS.into(), key.into());
    let bound = channel.queue_bind(
        queue.clone(),
        exchange,
        key,
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    bound.await.unwrap();
    queue.to_string()
}

async fn publish_all(bus: &Arc<RabbitBus>, messages: Vec<Message>) -> Vec<(String, Published)> {
    let publishing = messages.into_iter().map(|message| {
        let bus = Arc::clone(bus);
        let id = message.message_id.clone();
        tokio::spawn(async move { (id, bus.publish(message).await) })
    });
    let mut words = Vec::new();
    for word in publishing.collect::<Vec<_>>() {
        words.push(word.await.unwrap());
    }
    words
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_unroutable_ones_of_a_thousand_requests_are_returned() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    approver_queue(&vhost.url(), "approval.*.ops.*", FieldTable::default()).await;
    for round in 0..5 {
        let messages = (0..1_000).map(|n| {
            let pool = if n % 4 == 3 { "nobody" } else { "ops" };
            request(pool, &format!("{pool}.{round}.{n}"))
        });
        let words = publish_all(&bus, messages.collect()).await;
        let wrong: Vec<_> = words
            .iter()
            .filter(|(id, word)| match word {
                Published::Confirmed => !id.starts_with("ops"),
                Published::Returned => !id.starts_with("nobody"),
                Published::Nacked | Published::Unknown(_) => true,
            })
            .collect();
        assert!(wrong.is_empty(), "round {round}: {wrong:?}");
    }
    let figures = bus.figures();
    assert_eq!((figures.confirmed, figures.returned), (3_750, 1_250));
}

#[tokio::test]
async fn a_confirmed_request_is_in_its_queue_as_it_was_given() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let queue = approver_queue(&vhost.url(), "approval.*.ops.*", FieldTable::default()).await;
    assert_eq!(bus.publish(request("ops", "a.1")).await, Published::Confirmed);

    let channel = stranger(&vhost.url()).await;
    let got = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap();
    let got = got.unwrap().delivery;
    assert_eq!(got.routing_key.as_str(), "approval.tenant-0.ops.high");
    assert_eq!(got.data, br#"{"v":1}"#);
    let properties = &got.properties;
    assert_eq!(properties.message_id().as_ref().unwrap().as_str(), "a.1");
    assert_eq!(properties.expiration().as_ref().unwrap().as_str(), "60000");
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_eq!(properties.kind().as_ref().unwrap().as_str(), "approval");
    let headers = properties.headers().as_ref().unwrap().inner();
    assert_eq!(headers.get("traceparent"), Some(&AMQPValue::LongString("00-1-2-01".into())));
}

#[tokio::test]
async fn intake_and_decisions_reach_those_who_read_them() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let as_port: Arc<dyn Bus> = bus.clone();
    let decision = Route::Decision { run: run(1) };
    for (route, source) in [(Route::Intake, Source::Intake), (decision, Source::Decisions)] {
        let mut consumer = consume(&as_port, source, 1).await;
        let message = Message { route, ..request("ops", "a.1") };
        assert_eq!(bus.publish(message).await, Published::Confirmed, "{source:?}");
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.body.as_ref(), br#"{"v":1}"#);
        assert_eq!(delivery.message_id.as_deref(), Some("a.1"));
        assert_eq!(delivery.headers, [("traceparent".to_owned(), "00-1-2-01".to_owned())]);
    }
}

#[tokio::test]
async fn a_full_queue_is_a_refusal_and_not_a_silence() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let mut one = FieldTable::default();
    one.insert("x-max-length".into(), AMQPValue::LongInt(1));
    one.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    approver_queue(&vhost.url(), "approval.*.ops.*", one).await;
    assert_eq!(bus.publish(request("ops", "a.1")).await, Published::Confirmed);
    assert_eq!(bus.publish(request("ops", "a.2")).await, Published::Nacked);
    assert_eq!(bus.figures().nacked, 1);
}

#[tokio::test]
async fn wakes_that_ring_together_travel_together_and_none_twice() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let as_port: Arc<dyn Bus> = bus.clone();
    let ringing = (0..256).map(|n| {
        let bus = Arc::clone(&as_port);
        tokio::spawn(async move { ring(&bus, wake_of(Lane::Hi, n % 128)).await })
    });
    for ringer in ringing.collect::<Vec<_>>() {
        ringer.await.unwrap();
    }
    let messages = bus.figures().confirmed;
    assert!(messages <= 8, "{messages} messages for 128 runs that rang twice");
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Hi), 64).await;
    let mut runs = BTreeSet::new();
    for _ in 0..messages {
        let woken = runs_of(&next(&mut consumer).await);
        assert_eq!(woken.iter().collect::<BTreeSet<_>>().len(), woken.len());
        runs.extend(woken);
    }
    assert_eq!(runs, (0..128).map(run).collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_publishers_do_not_disturb_each_other() {
    let vhost = shared_rabbit().unwrap();
    let one: Arc<dyn Bus> = bus(&vhost.url()).await;
    let two: Arc<dyn Bus> = bus(&vhost.url()).await;
    tokio::join!(ring_many(&one, 1_000), ring_many(&two, 1_000));
    let mut consumer = consume(&one, Source::Wakes(Lane::Lo), 64).await;
    let mut seen = std::collections::BTreeMap::new();
    while seen.len() < 1_000 || seen.values().any(|times| *times < 2) {
        let delivery = next(&mut consumer).await;
        for run in runs_of(&delivery) {
            *seen.entry(run).or_insert(0) += 1;
        }
        delivery.settle.ack().await;
    }
}

#[tokio::test]
async fn a_queue_deleted_under_a_publisher_is_declared_again() {
    let vhost = shared_rabbit().unwrap();
    let bus: Arc<dyn Bus> = bus(&vhost.url()).await;
    ring(&bus, wake_of(Lane::Lo, 1)).await;
    let channel = stranger(&vhost.url()).await;
    for bucket in 0..2 {
        let queue = topology::jobs_queue(Lane::Lo, bucket).into();
        channel.queue_delete(queue, QueueDeleteOptions::default()).await.unwrap();
    }
    ring(&bus, wake_of(Lane::Lo, 2)).await;
    let mut consumer = consume(&bus, Source::Wakes(Lane::Lo), 1).await;
    assert_eq!(runs_of(&next(&mut consumer).await), [run(2)]);
}

#[tokio::test]
async fn a_message_that_the_broker_forbids_is_refused() {
    let vhost = shared_rabbit().unwrap();
    let reader = User::reader(&vhost);
    bus(&vhost.url()).await; // somebody who may has declared everything
    let bus = RabbitBus::connect(settings(&reader.url)).unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
    assert_eq!(bus.publish(request("ops", "a.1")).await, Published::Nacked);
    assert!(matches!(bus.wake(wake_of(Lane::Lo, 1)).await, Published::Nacked));
    // It costs that message its channel, and nothing else.
    assert_eq!(bus.figures().connections_lost, 0);
}

/// A user of the broker with rights of its own, for one test.
pub(super) struct User {
    pub(super) url: String,
    name: String,
    management: Management,
}

impl User {
    /// May read everything, and neither declare nor write anything.
    pub(super) fn reader(vhost: &Vhost) -> Self {
        Self::create(vhost, &json!({ "configure": "", "write": "", "read": ".*" }))
    }

    pub(super) fn create(vhost: &Vhost, rights: &serde_json::Value) -> Self {
        let management = vhost.management().clone();
        let name = format!("user-of-{}", vhost.name());
        let user = json!({ "password": "secret", "tags": "" });
        management.put(&format!("/api/users/{name}"), &user).unwrap();
        let path = format!("/api/permissions/{}/{name}", vhost.name());
        management.put(&path, rights).unwrap();
        let url = vhost.url().replace("guest:guest", &format!("{name}:secret"));
        Self { url, name, management }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Err(why) = self.management.delete(&format!("/api/users/{}", self.name)) {
            eprintln!("user {} stays behind: {why:#}", self.name);
        }
    }
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_said_to_be_down_at_once() {
    let url = "amqp://guest:secret@127.0.0.1:1/x";
    let bus = RabbitBus::connect(RabbitSettings::new(url, "test")).unwrap();
    let why = bus.ready(300).await.unwrap_err().to_string();
    assert!(why.contains("127.0.0.1:1") && !why.contains("secret"), "{why}");
    let begin = std::time::Instant::now();
    assert!(matches!(bus.wake(wake_of(Lane::Lo, 1)).await, Published::Unknown(_)));
    assert!(matches!(bus.publish(request("ops", "a.1")).await, Published::Unknown(_)));
    assert!(begin.elapsed() < std::time::Duration::from_secs(1));
}

#[tokio::test]
async fn messages_survive_a_restart_of_their_reader() {
    let vhost = shared_rabbit().unwrap();
    let first = bus(&vhost.url()).await;
    let as_port: Arc<dyn Bus> = first.clone();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    ring(&as_port, wake_of(Lane::Lo, 1)).await;
    let _held = next(&mut consumer).await;
    first.shutdown().await;
    assert!(consumer.next().await.is_none());
    let queue = topology::jobs_queue(Lane::Lo, topology::bucket(&wake_of(Lane::Lo, 1).tenant, 2));
    await_queue_depth(&vhost.url(), &queue, 1, 10_000).await.unwrap();
}
