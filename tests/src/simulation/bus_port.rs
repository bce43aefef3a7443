//! One process's way to the broker, with everything that can go wrong on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use portcullis_engine::ports::{
    Bus, BusError, CONFIRM_TIMEOUT_MS, Condition, Consumer, Delivery, Message, Published, Route,
    Settle, Settled, Source, Wake,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::bus::{MemoryBus, Parcel};
use super::life::{Life, Step};

/// The broker as one process reaches it.
pub struct BusPort(pub Arc<Life>);

impl BusPort {
    /// `Some`: the broker's word, or its silence, without having got the message.
    async fn reach(&self) -> Option<Published> {
        self.0.pass(Step::Write).await;
        self.0.travel().await;
        let world = &self.0.world;
        if world.bus_down_until().is_some() {
            // sleep: in virtual time, which passes at once
            tokio::time::sleep(Duration::from_millis(CONFIRM_TIMEOUT_MS)).await;
            self.0.alive().await;
            return Some(Published::Unknown("the broker is down".to_owned()));
        }
        if world.strikes(50) {
            return Some(Published::Nacked);
        }
        world.strikes(80).then(|| Published::Unknown("it was lost".to_owned()))
    }

    /// Puts a parcel into its queue: twice, later, or out of order.
    fn deliver(&self, source: Source, parcel: Parcel) {
        let world = &self.0.world;
        if world.strikes(15) {
            world.note("duplicates", String::new);
            self.deliver_once(source, parcel.clone());
        }
        self.deliver_once(source, parcel);
    }

    fn deliver_once(&self, source: Source, parcel: Parcel) {
        let world = Arc::clone(&self.0.world);
        let (late, place) = (world.strikes(10), world.strikes(10));
        let place = if place { world.draw(|chance| chance.below(4)) } else { u64::MAX };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        if !late {
            world.bus.deliver(source, parcel, place);
            return;
        }
        let ms = world.draw(|chance| chance.between(1, 8_000));
        tokio::spawn(async move {
            // sleep: in virtual time, which passes at once
            tokio::time::sleep(Duration::from_millis(ms)).await;
            world.bus.deliver(source, parcel, place);
        });
    }

    async fn confirmed(&self) -> Published {
        if self.0.world.strikes(80) {
            return Published::Unknown("the confirm was lost".to_owned());
        }
        self.0.pass(Step::Write).await;
        self.0.travel().await;
        Published::Confirmed
    }
}

#[async_trait]
impl Bus for BusPort {
    async fn wake(&self, wake: Wake) -> Published {
        if let Some(word) = self.reach().await {
            return word;
        }
        if self.0.world.strikes(25) {
            self.0.world.note("wakes lost", || wake.run.to_string());
        } else {
            let (source, parcel) = MemoryBus::parcel_of(&wake);
            self.deliver(source, parcel);
        }
        self.confirmed().await
    }

    async fn publish(&self, message: Message) -> Published {
        if let Some(word) = self.reach().await {
            return word;
        }
        let source = match &message.route {
            Route::Approval { .. } => {
                if self.0.world.strikes(15) {
                    self.0.world.note("duplicates", String::new);
                    self.0.world.bus.publish(message.clone()).await;
                }
                let word = self.0.world.bus.publish(message).await;
                if word != Published::Confirmed {
                    return word;
                }
                return self.confirmed().await;
            }
            Route::Intake => Source::Intake,
            Route::Decision { .. } => Source::Decisions,
        };
        self.0.world.count("jobs left on the broker");
        let (body, message_id) = (message.body, Some(message.message_id));
        self.deliver(source, Parcel { body, message_id, redelivered: false });
        self.confirmed().await
    }

    async fn consume(&self, source: Source, prefetch: u16) -> Result<Consumer, BusError> {
        self.0.pass(Step::Read).await;
        let (sender, receiver) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let life = Arc::clone(&self.0);
        let inner = life.world.bus.consume(source, prefetch).await?;
        let relay = Relay { life, source, prefetch, inner, sender };
        let ended = cancel.clone();
        tokio::spawn(async move {
            let dead = relay.life.dead.clone();
            tokio::select! {
                biased;
                () = dead.cancelled() => {}
                () = ended.cancelled() => {}
                () = relay.run() => {}
            }
        });
        Ok(Consumer::new(receiver, cancel))
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.0.world.bus.condition()
    }
}

/// Carries deliveries to a process: late, not at all for a while, or over a channel that dies.
struct Relay {
    life: Arc<Life>,
    source: Source,
    prefetch: u16,
    inner: Consumer,
    sender: mpsc::Sender<Delivery>,
}

impl Relay {
    async fn run(mut self) {
        let world = Arc::clone(&self.life.world);
        while let Some(delivery) = self.inner.next().await {
            if let Some(until) = world.bus_down_until() {
                // sleep: in virtual time, which passes at once
                tokio::time::sleep_until(until).await;
            }
            if world.strikes(60) {
                let ms = world.draw(|chance| chance.between(1_000, 40_000));
                world.note("deaf consumers", || format!("{} for {ms} ms", self.life.name));
                // sleep: in virtual time, which passes at once
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            if world.strikes(60) {
                world.note("channels lost", || self.life.name.clone());
                drop(delivery);
                let Ok(again) = world.bus.consume(self.source, self.prefetch).await else { return };
                self.inner = again;
                continue;
            }
            self.life.travel().await;
            if delivery.redelivered {
                world.count("redeliveries");
            }
            let settle = Settling { life: Arc::clone(&self.life), inner: delivery.settle };
            let delivery = Delivery { settle: Box::new(settle), ..delivery };
            if self.sender.send(delivery).await.is_err() {
                return;
            }
        }
    }
}

struct Settling {
    life: Arc<Life>,
    inner: Box<dyn Settle>,
}

impl Settling {
    async fn reaches(&self) -> bool {
        self.life.pass(Step::Read).await;
        self.life.world.bus_down_until().is_none() && !self.life.world.strikes(60)
    }
}

#[async_trait]
impl Settle for Settling {
    async fn ack(self: Box<Self>) -> Settled {
        if self.reaches().await { self.inner.ack().await } else { Settled::Lost }
    }

    async fn give_back(self: Box<Self>) -> Settled {
        if self.reaches().await { self.inner.give_back().await } else { Settled::Lost }
    }

    async fn dead_letter(self: Box<Self>) -> Settled {
        if self.reaches().await { self.inner.dead_letter().await } else { Settled::Lost }
    }
}
