//! What is in a queue? Asked over AMQP, for the management API's figures are seconds old.
//!
//! Each call opens a connection of its own, so that a refusal closes no channel of the test.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};

const ANSWER_MS_MAX: u64 = 10_000;

/// How many messages of `queue` wait for a consumer. Delivered and unacknowledged ones are not in.
/// A quorum queue without a leader (just after a restart) says 0: see [`await_queue_depth`].
///
/// # Errors
/// The queue does not exist, or the broker does not answer within 10 s.
pub async fn queue_depth(url: &str, queue: &str) -> anyhow::Result<u32> {
    on_channel(url, async |channel| {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(queue.into(), options, FieldTable::default()).await?;
        Ok(declared.message_count())
    })
    .await
    .with_context(|| format!("cannot look at queue {queue}"))
}

/// Waits until `depth` messages of `queue` wait for a consumer, asking again and again.
///
/// After a broker's restart a quorum queue counts as empty until it has elected its leader.
///
/// # Errors
/// It does not come to that within `wait_ms_max`; the error has the last answer.
pub async fn await_queue_depth(
    url: &str,
    queue: &str,
    depth: u32,
    wait_ms_max: u64,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        // Each question opens a connection, so this does not spin.
        let found = queue_depth(url, queue).await;
        if found.as_ref().is_ok_and(|found| *found == depth) {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < Duration::from_millis(wait_ms_max),
            "queue {queue} has not come to {depth} messages in {wait_ms_max} ms: {found:?}"
        );
    }
}

/// Empties `queue` of the messages that wait for a consumer; how many they were.
///
/// # Errors
/// The queue does not exist, or the broker does not answer within 10 s.
pub async fn purge_queue(url: &str, queue: &str) -> anyhow::Result<u32> {
    on_channel(url, async |channel| {
        Ok(channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await?)
    })
    .await
    .with_context(|| format!("cannot purge queue {queue}"))
}

/// Deletes `queue`, whatever is in it and whoever consumes it; how many messages it had.
///
/// # Errors
/// The broker does not answer within 10 s.
pub async fn delete_queue(url: &str, queue: &str) -> anyhow::Result<u32> {
    on_channel(url, async |channel| {
        Ok(channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?)
    })
    .await
    .with_context(|| format!("cannot delete queue {queue}"))
}

async fn on_channel<T>(
    url: &str,
    ask: impl AsyncFnOnce(&Channel) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let answer = async {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let answer = ask(&channel).await?;
        connection.close(200, "done".into()).await?;
        Ok(answer)
    };
    tokio::time::timeout(Duration::from_millis(ANSWER_MS_MAX), answer).await?
}
