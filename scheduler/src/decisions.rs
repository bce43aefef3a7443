//! How does the word of an approver service, sent over the bus, get to its run?
//!
//! Authority: the run's record decides what counts; the approver's own signature proves who spoke.
//! Invariant: a delivery is settled once, after the firm commit or the refusal that answers it;
//! while the store is down it is held, for giving it back would count against it.
//! If we crash here: the broker delivers it again, and the run answers «already so».

use std::sync::Arc;
use std::time::Duration;

use portcullis_engine::StepError;
use portcullis_engine::ports::{BusError, Delivery, Settled, Source};
use portcullis_engine::surroundings::Draw as _;
use portcullis_proto::decision::{Channel, DecisionError, SignedDecision};
use portcullis_proto::run::{Event, Reject, Standing};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::Scheduler;

/// How many decisions of a queue may be unsettled at once.
const PREFETCH: u16 = 32;
/// How many decisions are worked on at once, over all queues.
const UNDERWAY_MAX: usize = 64;
/// A decision that the store could not take is tried again after this, doubled each time, in
/// milliseconds.
const RETRY_MS_FIRST: u64 = 250;
const RETRY_MS_MAX: u64 = 5_000;
/// After so long without a store the delivery is given back, in milliseconds: ten minutes.
const HOLD_MS_MAX: i64 = 600_000;

/// What came of a delivery.
#[derive(Debug)]
enum Received {
    Counted,
    Rejected(Reject),
    /// No word from the store, or none that may be relied on.
    NoStore(StepError),
    Undecodable(DecisionError),
    /// Signed as having come through another channel than this one.
    WrongChannel,
}

/// What is done with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settlement {
    Ack,
    Hold,
    DeadLetter,
}

const fn settle(received: &Received) -> Settlement {
    match received {
        // The run has answered, one way or the other: its record carries on.
        Received::Counted | Received::Rejected(_) => Settlement::Ack,
        Received::NoStore(_) => Settlement::Hold,
        Received::Undecodable(_) | Received::WrongChannel => Settlement::DeadLetter,
    }
}

impl Scheduler {
    /// Takes decisions from the bus until `stop`.
    ///
    /// # Errors
    /// When the bus refuses the subscription.
    pub(crate) async fn take_decisions(
        self: &Arc<Self>,
        stop: CancellationToken,
    ) -> Result<(), BusError> {
        let mut consumer = self.engine.bus.consume(Source::Decisions, PREFETCH).await?;
        let (places, tasks) = (Arc::new(Semaphore::new(UNDERWAY_MAX)), TaskTracker::new());
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let place = place.expect("this semaphore is never closed");
            let delivery = tokio::select! {
                () = stop.cancelled() => break,
                delivery = consumer.next() => match delivery {
                    Some(delivery) => delivery,
                    None => break,
                },
            };
            let (scheduler, stop) = (Arc::clone(self), stop.clone());
            tasks.spawn(async move {
                scheduler.take_decision(delivery, &stop).await;
                drop(place);
            });
        }
        tasks.close();
        tasks.wait().await;
        Ok(())
    }

    async fn take_decision(self: Arc<Self>, delivery: Delivery, stop: &CancellationToken) {
        let began = self.engine.surroundings.boot_ms();
        let mut wait_ms = RETRY_MS_FIRST;
        let settled = loop {
            let received = self.count(&delivery.body).await;
            told(&received);
            self.engine.meters.decided(word(&received));
            match settle(&received) {
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
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
            wait_ms = wait_ms.saturating_mul(2).min(RETRY_MS_MAX);
        };
        match settled {
            Settled::Done => {}
            Settled::Lost => debug!("a decision will come again: its channel died"),
        }
    }

    async fn count(self: &Arc<Self>, body: &[u8]) -> Received {
        let signed = match SignedDecision::decode(body) {
            Ok(signed) => signed,
            Err(why) => return Received::Undecodable(why),
        };
        match signed.decision.channel {
            Channel::Amqp => {}
            // It would stand in the record as something it was not.
            Channel::Http | Channel::Cli | Channel::Console => return Received::WrongChannel,
        }
        match self.send_decision(signed).await {
            Ok(()) => Received::Counted,
            Err(StepError::Rejected { reject, .. }) => Received::Rejected(reject),
            Err(why) => Received::NoStore(why),
        }
    }

    async fn send_decision(self: &Arc<Self>, signed: SignedDecision) -> Result<(), StepError> {
        let (id, approver) =
            (signed.decision.approval_id.clone(), signed.decision.approver.clone());
        let (held, _) = self.engine.load(&id.run()).await?;
        let request = held.as_ref().and_then(|held| held.run().approval(&id));
        let Some((_, request)) = request else {
            let (reject, place) = (Reject::UnknownApproval, 0);
            return Err(StepError::Rejected { reject, place, held: None });
        };
        let standing = if self.settings.roster.is_member(&request.pool, &approver) {
            Standing::Member
        } else {
            Standing::NoMember
        };
        let keys = Arc::clone(&self.settings.keys);
        let event = Event::Decide { signed: Box::new(signed), standing, keys };
        match self.engine.step(&id.run(), held, &[event]).await {
            Ok(_) => Ok(()),
            Err(StepError::Rejected { reject: Reject::AlreadySo, place, held }) => {
                // A redelivery after «not durable» must not be acked as long as that may be so.
                self.engine.confirm(&id.run()).await?;
                Err(StepError::Rejected { reject: Reject::AlreadySo, place, held })
            }
            Err(other) => Err(other),
        }
    }
}

const fn word(received: &Received) -> &'static str {
    match received {
        Received::Counted => "counted",
        Received::Rejected(reject) => reject.code(),
        Received::NoStore(_) => "unavailable",
        Received::Undecodable(_) => "undecodable",
        Received::WrongChannel => "wrong_channel",
    }
}

fn told(received: &Received) {
    match received {
        Received::Counted => info!("decision counted"),
        Received::Rejected(Reject::AlreadySo) => debug!("decision delivered again"),
        Received::Rejected(reject) => warn!(%reject, code = reject.code(), "decision refused"),
        Received::NoStore(why) => warn!(%why, "decision held"),
        Received::Undecodable(why) => warn!(%why, "W041 decision dead-lettered"),
        Received::WrongChannel => warn!("W041 decision dead-lettered: not signed for this channel"),
    }
}

#[cfg(test)]
mod tests;
