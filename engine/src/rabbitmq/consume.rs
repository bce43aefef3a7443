//! What did the broker give us, and how do we give it back?
//!
//! One channel per queue, so that a channel error hurts one queue until the whole connection is
//! built anew. The broker bounds what is unsettled per queue; all queues share one small bounded
//! channel to the reader, in which senders wait their turn, so that none starves.
//!
//! Authority: the broker. A delivery belongs to the session that brought it; when that ends, its
//! settlement is [`Settled::Lost`] and it comes again, marked as redelivered.
//! Invariant: the end of a subscription that nobody asked for is a fault: the session is failed and
//! the link builds a new one. No delivery is settled by being forgotten, except back to its queue.
//! If we crash here: the broker gives what was unsettled to somebody else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions,
};
use lapin::types::FieldTable;
use lapin::{Acker, Channel};
use portcullis_proto::topology;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::channel::{ACCESS_REFUSED, ANSWER_MS_MAX, AmqpError, answer};
use super::counters::Counters;
use super::link::{Link, Session};
use super::parcel::read_headers;
use crate::ports::{BODY_BYTES_MAX, Delivery, Settle, Settled, Source};

/// How long a closing channel may take before the connection's end takes it along.
const CLOSE_MS_MAX: u64 = 2_000;
/// A subscription that the broker forbids is asked for again after this, in milliseconds.
const FORBIDDEN_MS: u64 = 10_000;

/// The queues of a source.
pub(super) fn queues(source: Source, buckets: u8) -> Vec<String> {
    match source {
        Source::Wakes(lane) => (0..buckets).map(|b| topology::jobs_queue(lane, b)).collect(),
        Source::Intake => vec![topology::INTAKE_QUEUE.to_owned()],
        Source::Decisions => (0..buckets).map(topology::decisions_queue).collect(),
        Source::DeadJobs => vec![topology::DEAD_JOBS_QUEUE.to_owned()],
        Source::DeadDecisions => vec![topology::DEAD_DECISIONS_QUEUE.to_owned()],
    }
}

/// Reads one queue, over as many sessions as it takes, until cancelled.
pub(super) struct Subscription {
    pub(super) queue: String,
    pub(super) prefetch: u16,
    pub(super) link: Link,
    pub(super) deliveries: mpsc::Sender<Delivery>,
    pub(super) counters: Arc<Counters>,
    pub(super) cancel: CancellationToken,
}

impl Subscription {
    pub(super) async fn run(self) {
        while let Some(session) = self.link.session(&self.cancel).await {
            match self.subscribe(&session).await {
                Ok((channel, stream)) => self.forward(&session, &channel, stream).await,
                Err(why) if why.code() == Some(ACCESS_REFUSED) => {
                    tracing::error!(queue = %self.queue, %why, "not allowed to read a queue");
                    let pause = tokio::time::sleep(Duration::from_millis(FORBIDDEN_MS));
                    let _cancelled = self.cancel.run_until_cancelled(pause).await;
                }
                Err(why) => session.fail(format!("cannot read queue {}: {why}", self.queue)),
            }
        }
    }

    async fn subscribe(&self, session: &Session) -> Result<(Channel, lapin::Consumer), AmqpError> {
        let channel = session.channel().await?;
        // Before consuming: a later change would not reach this consumer.
        answer(channel.basic_qos(self.prefetch, BasicQosOptions::default())).await?;
        let options = BasicConsumeOptions::default();
        let queue = self.queue.as_str().into();
        let consumed = channel.basic_consume(queue, "".into(), options, FieldTable::default());
        let stream = answer(consumed).await?;
        Ok((channel, stream))
    }

    /// Hands deliveries on until cancelled or until the session is over.
    async fn forward(&self, session: &Session, channel: &Channel, mut stream: lapin::Consumer) {
        let fault = loop {
            let next = tokio::select! {
                next = stream.next() => next,
                () = self.cancel.cancelled() => break None,
                () = session.ended().cancelled() => return,
            };
            match next {
                Some(Ok(delivery)) => {
                    let Some(delivery) = self.accept(delivery).await else { continue };
                    tokio::select! {
                        // An error: the reader is gone, so we are about to be cancelled.
                        _sent = self.deliveries.send(delivery) => {}
                        () = self.cancel.cancelled() => break None,
                        () = session.ended().cancelled() => return,
                    }
                }
                Some(Err(why)) => break Some(why.to_string()),
                None => break Some("the broker cancelled it (was the queue deleted?)".to_owned()),
            }
        };
        if let Some(why) = fault {
            return session.fail(format!("the subscription to queue {} ended: {why}", self.queue));
        }
        // What is unsettled goes back to its queue with the channel.
        let closing = channel.close(200, "done".into());
        let limit = Duration::from_millis(CLOSE_MS_MAX);
        let _closed = tokio::time::timeout(limit, closing).await;
    }

    async fn accept(&self, delivery: lapin::message::Delivery) -> Option<Delivery> {
        self.counters.count_delivery();
        let settle = Box::new(RabbitSettle {
            acker: Some(delivery.acker),
            counters: Arc::clone(&self.counters),
            cancel: self.cancel.clone(),
        });
        if BODY_BYTES_MAX < delivery.data.len() {
            self.counters.count_oversized();
            tracing::error!(queue = %self.queue, bytes = delivery.data.len(), "body too long");
            settle.dead_letter().await;
            return None;
        }
        let properties = &delivery.properties;
        Some(Delivery {
            message_id: properties.message_id().as_ref().map(ToString::to_string),
            user_id: properties.user_id().as_ref().map(ToString::to_string),
            headers: read_headers(properties.headers().as_ref()),
            redelivered: delivery.redelivered,
            body: Bytes::from(delivery.data),
            settle,
        })
    }
}

struct RabbitSettle {
    /// `None` once used.
    acker: Option<Acker>,
    counters: Arc<Counters>,
    cancel: CancellationToken,
}

impl RabbitSettle {
    async fn settle(&mut self, ask: impl AsyncFnOnce(Acker) -> lapin::Result<bool>) -> Settled {
        let Some(acker) = self.acker.take() else { return Settled::Lost };
        let limit = Duration::from_millis(ANSWER_MS_MAX);
        // `false`: the channel is dead or the delivery was settled before. The library calls that
        // a success; it is none, for the delivery comes again.
        let reached = matches!(tokio::time::timeout(limit, ask(acker)).await, Ok(Ok(true)));
        if reached {
            // Written, that is: AMQP has no answer to a settlement. If the connection breaks just
            // now, the delivery comes again all the same.
            return Settled::Done;
        }
        self.counters.count_lost_settlement();
        Settled::Lost
    }
}

#[async_trait]
impl Settle for RabbitSettle {
    async fn ack(mut self: Box<Self>) -> Settled {
        self.settle(async |acker| acker.ack(BasicAckOptions::default()).await).await
    }

    async fn give_back(mut self: Box<Self>) -> Settled {
        self.settle(give_back).await
    }

    async fn dead_letter(mut self: Box<Self>) -> Settled {
        let options = BasicRejectOptions { requeue: false };
        self.settle(async |acker| acker.reject(options).await).await
    }
}

async fn give_back(acker: Acker) -> lapin::Result<bool> {
    acker.nack(BasicNackOptions { requeue: true, multiple: false }).await
}

impl Drop for RabbitSettle {
    /// A reader that panicked must not take a place of the prefetch with it for good.
    fn drop(&mut self) {
        let Some(acker) = self.acker.take() else { return };
        // Cancelled: its channel closes, and gives everything back at once.
        if self.cancel.is_cancelled() || !acker.usable() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cancel = self.cancel.clone();
            runtime.spawn(async move {
                if !cancel.is_cancelled() {
                    let _given = give_back(acker).await;
                }
            });
        }
    }
}
