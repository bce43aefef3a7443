//! The broker is set up as the topology says, or somebody is told what is in the way.

use std::sync::Arc;

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use portcullis_engine::ports::{Bus, Published, Settled, Source};
use portcullis_engine::rabbitmq::{Declare, RabbitBus, RabbitSettings, Witness};
use portcullis_proto::ids::Epoch;
use portcullis_proto::topology::{self, Lane};
use portcullis_tests::conformance::bus::{consume, next, request, ring, run, runs_of, wake_of};
use portcullis_tests::servers::{delete_queue, shared_rabbit};

use super::publishing::{User, stranger};
use super::{READY_MS_MAX, bus, settings};

const TROUBLE_MS_MAX: u64 = 1_500;

#[tokio::test]
async fn either_way_of_declaring_can_be_repeated() {
    for declare in [Declare::PoliciesOnly, Declare::Arguments] {
        let vhost = shared_rabbit().unwrap();
        for _ in 0..2 {
            let settings = RabbitSettings { declare, ..settings(&vhost.url()) };
            let bus = RabbitBus::connect(settings).unwrap();
            bus.ready(READY_MS_MAX).await.unwrap();
            assert_eq!(bus.trouble(), None);
        }
    }
}

#[tokio::test]
async fn a_queue_with_other_settings_is_named_with_what_mends_it() {
    let vhost = shared_rabbit().unwrap();
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let channel = stranger(&vhost.url()).await;
    channel.queue_declare("jobs.hi.1".into(), options, FieldTable::default()).await.unwrap();

    let bus = RabbitBus::connect(settings(&vhost.url())).unwrap();
    let why = bus.ready(TROUBLE_MS_MAX).await.unwrap_err().to_string();
    assert!(why.contains("queue `jobs.hi.1` exists with other settings"), "{why}");
    assert!(why.contains("delete it"), "{why}");

    // And mending it is enough.
    delete_queue(&vhost.url(), "jobs.hi.1").await.unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
}

#[tokio::test]
async fn who_may_not_declare_works_with_what_is_there() {
    let vhost = shared_rabbit().unwrap();
    let reader = User::reader(&vhost);
    let bus_of_reader = RabbitBus::connect(settings(&reader.url)).unwrap();
    let why = bus_of_reader.ready(TROUBLE_MS_MAX).await.unwrap_err().to_string();
    assert!(why.contains("`portcullis.dead` is absent"), "{why}");

    let declarer: Arc<dyn Bus> = bus(&vhost.url()).await;
    bus_of_reader.ready(READY_MS_MAX).await.unwrap();
    let as_port: Arc<dyn Bus> = bus_of_reader;
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    ring(&declarer, wake_of(Lane::Lo, 1)).await;
    assert_eq!(runs_of(&next(&mut consumer).await), [run(1)]);
}

#[tokio::test]
async fn a_worker_with_the_shipped_rights_can_work() {
    let vhost = shared_rabbit().unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/rabbitmq/definitions.json");
    let shipped = std::fs::read_to_string(shipped).unwrap();
    let shipped: serde_json::Value = serde_json::from_str(&shipped).unwrap();
    let permissions = shipped["permissions"].as_array().unwrap();
    let rights = permissions.iter().find(|entry| entry["user"] == "worker").unwrap();
    let worker = User::create(&vhost, rights);
    bus(&vhost.url()).await; // an administrator has loaded everything

    let bus = RabbitBus::connect(settings(&worker.url)).unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
    let as_port: Arc<dyn Bus> = bus.clone();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    ring(&as_port, wake_of(Lane::Lo, 1)).await;
    assert_eq!(next(&mut consumer).await.settle.ack().await, Settled::Done);
    assert_eq!(bus.publish(request("ops", "a.1")).await, Published::Returned);
    assert_eq!(bus.figures().connections_lost, 0);
}

#[tokio::test]
async fn what_is_dead_lettered_arrives_where_the_dead_are_read() {
    let vhost = shared_rabbit().unwrap();
    let bus: Arc<dyn Bus> = bus(&vhost.url()).await;
    let mut consumer = consume(&bus, Source::Wakes(Lane::Lo), 1).await;
    ring(&bus, wake_of(Lane::Lo, 1)).await;
    assert_eq!(next(&mut consumer).await.settle.dead_letter().await, Settled::Done);
    let mut dead = consume(&bus, Source::DeadJobs, 1).await;
    let delivery = next(&mut dead).await;
    assert_eq!(runs_of(&delivery), [run(1)]);
    assert_eq!(delivery.settle.ack().await, Settled::Done);
}

#[tokio::test]
async fn a_body_too_long_is_dead_lettered_unread() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let as_port: Arc<dyn Bus> = bus.clone();
    let channel = stranger(&vhost.url()).await;
    // Confirmed: it is in the queue before the short one.
    channel.confirm_select(lapin::options::ConfirmSelectOptions::default()).await.unwrap();
    let body = vec![b' '; portcullis_engine::ports::BODY_BYTES_MAX + 1];
    let (exchange, key) = (topology::JOBS.into(), topology::INTAKE_QUEUE.into());
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish(exchange, key, options, &body, BasicProperties::default());
    sent.await.unwrap().await.unwrap();
    let mut intake = consume(&as_port, Source::Intake, 1).await;
    let message = portcullis_engine::ports::Message {
        route: portcullis_engine::ports::Route::Intake,
        ..request("ops", "short")
    };
    assert_eq!(bus.publish(message).await, Published::Confirmed);
    assert_eq!(next(&mut intake).await.message_id.as_deref(), Some("short"));
    assert_eq!(bus.figures().oversized, 1);
}

#[tokio::test]
async fn the_broker_remembers_which_stores_were_installed_on_it() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let (ours, other) = (Epoch([1; 16]), Epoch([2; 16]));
    let witness = async |epoch| bus.witness(epoch).await.unwrap();
    let nothing = Witness { installed: false, knows_epoch: false };
    assert_eq!(witness(None).await, nothing);
    assert_eq!(witness(Some(ours)).await, nothing);
    for _ in 0..2 {
        bus.record_epoch(ours).await.unwrap();
    }
    assert_eq!(witness(Some(ours)).await, Witness { installed: true, knows_epoch: true });
    assert_eq!(witness(Some(other)).await, Witness { installed: true, knows_epoch: false });
    assert_eq!(witness(None).await, Witness { installed: true, knows_epoch: false });
    // The questions that the broker refused cost nobody anything.
    assert_eq!(bus.figures().connections_lost, 0);
}

#[tokio::test]
async fn a_broker_that_is_down_is_no_new_installation() {
    let url = "amqp://guest:guest@127.0.0.1:1/x";
    let bus = RabbitBus::connect(RabbitSettings::new(url, "test")).unwrap();
    assert!(bus.witness(None).await.is_err());
    assert!(bus.record_epoch(Epoch([1; 16])).await.is_err());
    assert!(bus.examine(Declare::PoliciesOnly).await.is_err());
}

#[tokio::test]
async fn a_queue_deleted_under_its_reader_is_declared_and_read_again() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let as_port: Arc<dyn Bus> = bus.clone();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    ring(&as_port, wake_of(Lane::Lo, 1)).await;
    let held = next(&mut consumer).await;
    for bucket in 0..2 {
        let queue = topology::jobs_queue(Lane::Lo, bucket);
        delete_queue(&vhost.url(), &queue).await.unwrap();
    }
    // Returned until the reader or the publisher has declared it again; then it arrives.
    while bus.wake(wake_of(Lane::Lo, 2)).await != Published::Confirmed {}
    let mut again = next(&mut consumer).await;
    while runs_of(&again) != [run(2)] {
        again = next(&mut consumer).await;
    }
    assert_eq!(held.settle.ack().await, Settled::Lost);
    assert_eq!(again.settle.ack().await, Settled::Done);
    assert!(1 <= bus.figures().settlements_lost);
}

#[tokio::test]
async fn a_wake_in_a_header_from_elsewhere_is_read_as_text() {
    let vhost = shared_rabbit().unwrap();
    let bus: Arc<dyn Bus> = bus(&vhost.url()).await;
    let channel = stranger(&vhost.url()).await;
    let mut headers = FieldTable::default();
    headers.insert("number".into(), AMQPValue::LongInt(1));
    headers.insert("text".into(), AMQPValue::LongString("yes".into()));
    let properties = BasicProperties::default().with_headers(headers).with_user_id("guest".into());
    let (exchange, key) = (topology::DECISIONS.into(), topology::decisions_queue(1).into());
    let options = BasicPublishOptions::default();
    channel.basic_publish(exchange, key, options, b"{}", properties).await.unwrap().await.unwrap();
    let delivery = next(&mut consume(&bus, Source::Decisions, 1).await).await;
    assert_eq!(delivery.user_id.as_deref(), Some("guest"));
    assert_eq!(delivery.headers, [("text".to_owned(), "yes".to_owned())]);
}
