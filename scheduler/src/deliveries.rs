//! How are messages taken from the bus: worked on, held or settled, once each?
//!
//! Invariant: a delivery is settled after the commit that answers it. While the store is down it
//! is held, for giving it back would count against it; after ten minutes it is given back.
//! If we crash here: the broker delivers again, and the store knows what it has seen.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use portcullis_engine::ports::{BusError, Delivery, Settled, Source};
use portcullis_engine::surroundings::Draw as _;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use crate::Scheduler;

/// How many messages of a queue may be unsettled at once.
const PREFETCH: u16 = 32;
/// How many messages of a source are worked on at once, over all its queues.
const UNDERWAY_MAX: usize = 64;
/// A message that the store could not take is tried again after this, doubled each time, in
/// milliseconds.
const RETRY_MS_FIRST: u64 = 250;
const RETRY_MS_MAX: u64 = 5_000;
/// After so long without a store the delivery is given back, in milliseconds: ten minutes.
pub(crate) const HOLD_MS_MAX: i64 = 600_000;

/// What is done with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    Ack,
    /// Keep it, and work on it again shortly.
    Hold,
    DeadLetter,
}

impl Scheduler {
    /// Takes messages from a source until `stop`, and returns when all of them are settled.
    ///
    /// # Errors
    /// When the bus refuses the subscription.
    pub(crate) async fn consume<W, F>(
        self: &Arc<Self>,
        source: Source,
        stop: CancellationToken,
        work: W,
    ) -> Result<(), BusError>
    where
        W: Fn(Arc<Self>, Bytes) -> F + Copy + Send + Sync + 'static,
        F: Future<Output = Settlement> + Send,
    {
        let mut consumer = self.engine.bus.consume(source, PREFETCH).await?;
        let (places, tasks) = (Arc::new(Semaphore::new(UNDERWAY_MAX)), TaskTracker::new());
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let place = place.expect("this semaphore is never closed");
            let delivery = tokio::select! {
                // In this order every time: a run of the simulation must be repeatable.
                biased;
                () = stop.cancelled() => break,
                delivery = consumer.next() => match delivery {
                    Some(delivery) => delivery,
                    None => break,
                },
            };
            let (scheduler, stop) = (Arc::clone(self), stop.clone());
            tasks.spawn(async move {
                scheduler.work_on(delivery, &stop, work).await;
                drop(place);
            });
        }
        tasks.close();
        tasks.wait().await;
        Ok(())
    }

    async fn work_on<W, F>(self: Arc<Self>, delivery: Delivery, stop: &CancellationToken, work: W)
    where
        W: Fn(Arc<Self>, Bytes) -> F,
        F: Future<Output = Settlement>,
    {
        let began = self.engine.surroundings.boot_ms();
        let mut wait_ms = RETRY_MS_FIRST;
        let settled = loop {
            match work(Arc::clone(&self), delivery.body.clone()).await {
                Settlement::Ack => break delivery.settle.ack().await,
                Settlement::DeadLetter => break delivery.settle.dead_letter().await,
                Settlement::Hold => {}
            }
            let held_ms = self.engine.surroundings.boot_ms().saturating_sub(began);
            if HOLD_MS_MAX <= held_ms || stop.is_cancelled() {
                break delivery.settle.give_back().await;
            }
            let pause = Duration::from_millis(wait_ms) + self.engine.surroundings.jitter(wait_ms);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
            wait_ms = wait_ms.saturating_mul(2).min(RETRY_MS_MAX);
        };
        match settled {
            Settled::Done => {}
            Settled::Lost => debug!("a message will come again: its channel died"),
        }
    }
}
