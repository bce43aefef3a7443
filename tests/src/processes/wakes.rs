//! The doorbell's messages, taken out of their queues by hand and thrown in again.

use std::collections::BTreeSet;

use lapin::options::{BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use portcullis_proto::{topology, wake};

use super::until;

/// Every queue of wakes.
pub const JOB_QUEUES: [&str; 8] = [
    "jobs.hi.0",
    "jobs.hi.1",
    "jobs.hi.2",
    "jobs.hi.3",
    "jobs.lo.0",
    "jobs.lo.1",
    "jobs.lo.2",
    "jobs.lo.3",
];

/// Takes wakes out of the queues until they have named all of these runs: queue and body of each.
///
/// # Panics
/// When one of them is not rung for.
pub async fn take_wakes(url: &str, runs: &[String]) -> Vec<(String, Vec<u8>)> {
    let (_connection, channel) = channel(url).await;
    let mut missing: BTreeSet<&str> = runs.iter().map(String::as_str).collect();
    let mut taken = Vec::new();
    until("all runs are rung for", async || {
        for queue in JOB_QUEUES {
            let got = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap();
            let Some(got) = got else { continue };
            got.delivery.ack(BasicAckOptions::default()).await.unwrap();
            for run in wake::decode(&got.delivery.data).unwrap() {
                missing.remove(run.as_str());
            }
            taken.push((queue.to_owned(), got.delivery.data.clone()));
        }
        missing.is_empty()
    })
    .await;
    taken
}

/// Puts wakes into their queues, in this order, and returns once the broker has them.
///
/// # Panics
/// When the broker refuses.
pub async fn throw_wakes(url: &str, wakes: &[(String, Vec<u8>)]) {
    let (_connection, channel) = channel(url).await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    for (queue, body) in wakes {
        let confirm = channel
            .basic_publish(
                topology::JOBS.into(),
                queue.as_str().into(),
                BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() },
                body,
                BasicProperties::default().with_delivery_mode(2),
            )
            .await
            .unwrap()
            .await
            .unwrap();
        assert!(confirm.is_ack() && confirm.take_message().is_none(), "it was routed and taken");
    }
}

async fn channel(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}
