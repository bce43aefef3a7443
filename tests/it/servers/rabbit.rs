//! The same promise for RabbitMQ.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use portcullis_tests::servers::{
    RabbitServer, await_queue_depth, delete_queue, purge_queue, queue_depth, shared_rabbit,
};

use super::processes_using;

async fn channel(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    channel
}

async fn declare_quorum(channel: &Channel, queue: &str) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), options, arguments).await.unwrap();
}

async fn publish(channel: &Channel, queue: &str) {
    let kept = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish("".into(), queue.into(), options, b"body", kept);
    let confirm = sent.await.unwrap().await.unwrap();
    assert!(matches!(confirm, Confirmation::Ack(None)), "{confirm:?}");
}

#[tokio::test]
async fn rabbit_killed_and_restarted_keeps_its_messages_and_leaves_nothing_behind() {
    let mut server = RabbitServer::start().unwrap();
    let url = server.url();
    let folder = server.folder().to_path_buf();
    let before = channel(&url).await;
    declare_quorum(&before, "kept").await;
    publish(&before, "kept").await;

    server.await_queues_on_disk(&["kept"]).unwrap();
    server.kill9().unwrap();
    let left = processes_using(&folder);
    assert_eq!(left, [] as [String; 0], "the broker's helpers end with it");
    assert!(queue_depth(&url, "kept").await.is_err());

    server.restart().unwrap();
    assert_eq!(server.url(), url);
    await_queue_depth(&url, "kept", 1, 10_000).await.unwrap();

    server.pause().unwrap(); // a frozen server must go, too
    drop(server);
    assert_eq!(processes_using(&folder), [] as [String; 0]);
    assert!(!folder.exists());
}

#[tokio::test]
async fn two_rabbits_at_once_share_nothing() {
    let one = RabbitServer::start().unwrap();
    let two = RabbitServer::start().unwrap();
    assert_ne!(one.port(), two.port());
    declare_quorum(&channel(&one.url()).await, "only-here").await;
    assert_eq!(queue_depth(&one.url(), "only-here").await.unwrap(), 0);
    assert!(queue_depth(&two.url(), "only-here").await.is_err());
    let status = one.control(&["list_queues", "name", "--no-table-headers"]).unwrap();
    assert_eq!(status.trim(), "only-here");
}

#[tokio::test]
async fn tests_on_the_shared_rabbit_do_not_see_each_other() {
    let one = shared_rabbit().unwrap();
    let two = shared_rabbit().unwrap();
    declare_quorum(&channel(&one.url()).await, "mine").await;
    assert!(queue_depth(&two.url(), "mine").await.is_err());
}

#[tokio::test]
async fn a_virtual_host_ends_with_its_test() {
    let keeper = shared_rabbit().unwrap();
    let vhost = shared_rabbit().unwrap();
    let path = format!("/api/vhosts/{}", vhost.name());
    assert!(keeper.management().get(&path).is_ok());
    drop(vhost);
    let why = keeper.management().get(&path).unwrap_err().to_string();
    assert!(why.contains("404"), "{why}");
}

#[tokio::test]
async fn queues_can_be_counted_purged_and_deleted() {
    let vhost = shared_rabbit().unwrap();
    let channel = channel(&vhost.url()).await;
    declare_quorum(&channel, "work").await;
    publish(&channel, "work").await;
    publish(&channel, "work").await;
    assert_eq!(queue_depth(&vhost.url(), "work").await.unwrap(), 2);
    assert_eq!(purge_queue(&vhost.url(), "work").await.unwrap(), 2);
    assert_eq!(queue_depth(&vhost.url(), "work").await.unwrap(), 0);
    delete_queue(&vhost.url(), "work").await.unwrap();
    assert!(queue_depth(&vhost.url(), "work").await.is_err());
}
