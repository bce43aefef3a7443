//! Wakes and messages in lists, deliveries as the test offers them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_engine::ports::{
    Bus, BusError, Condition, Consumer, Delivery, Message, Published, Settle, Settled, Source, Wake,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// How a delivery was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Acked,
    Back,
    Dead,
}

struct Settler(oneshot::Sender<Given>);

impl Settler {
    fn tell(self, given: Given) -> Settled {
        if self.0.send(given).is_ok() { Settled::Done } else { Settled::Lost }
    }
}

#[async_trait]
impl Settle for Settler {
    async fn ack(self: Box<Self>) -> Settled {
        self.tell(Given::Acked)
    }

    async fn give_back(self: Box<Self>) -> Settled {
        self.tell(Given::Back)
    }

    async fn dead_letter(self: Box<Self>) -> Settled {
        self.tell(Given::Dead)
    }
}

pub(crate) struct FakeBus {
    pub(crate) condition: watch::Sender<Condition>,
    published: Mutex<Vec<Message>>,
    queues: Mutex<HashMap<Source, mpsc::Sender<Delivery>>>,
    /// Told whenever somebody subscribes.
    subscribed: watch::Sender<usize>,
}

impl FakeBus {
    pub(crate) fn up() -> Arc<Self> {
        Arc::new(Self {
            condition: watch::Sender::new(Condition::Up),
            published: Mutex::default(),
            queues: Mutex::default(),
            subscribed: watch::Sender::new(0),
        })
    }

    /// What was published, in order.
    pub(crate) fn published(&self) -> Vec<Message> {
        self.published.lock().expect("no panic while held").clone()
    }

    /// Offers a body to whoever consumes `source`, and tells how it was settled. Waits for a
    /// consumer.
    pub(crate) async fn deliver(&self, source: Source, body: &[u8]) -> oneshot::Receiver<Given> {
        let mut subscribed = self.subscribed.subscribe();
        let queue = loop {
            let queue = self.queues.lock().expect("no panic while held").get(&source).cloned();
            match queue {
                Some(queue) => break queue,
                None => subscribed.changed().await.expect("the bus outlives the test"),
            }
        };
        let (tell, told) = oneshot::channel();
        let delivery = Delivery {
            body: Bytes::copy_from_slice(body),
            message_id: None,
            user_id: None,
            headers: Vec::new(),
            redelivered: false,
            settle: Box::new(Settler(tell)),
        };
        queue.send(delivery).await.expect("somebody consumes");
        told
    }
}

#[async_trait]
impl Bus for FakeBus {
    async fn wake(&self, _: Wake) -> Published {
        Published::Confirmed
    }

    async fn publish(&self, message: Message) -> Published {
        if *self.condition.borrow() != Condition::Up {
            return Published::Unknown("switched off".into());
        }
        self.published.lock().expect("no panic while held").push(message);
        Published::Confirmed
    }

    async fn consume(&self, source: Source, prefetch: u16) -> Result<Consumer, BusError> {
        let (sender, receiver) = mpsc::channel(usize::from(prefetch));
        self.queues.lock().expect("no panic while held").insert(source, sender);
        self.subscribed.send_modify(|times| *times += 1);
        Ok(Consumer::new(receiver, CancellationToken::new()))
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.subscribe()
    }
}
