//! How does the word of an approver service, sent over the bus, get to its run?
//!
//! Authority: the run's record decides what counts; the approver's own signature proves who spoke.
//! Invariant: a delivery is acked only after the firm commit, or the refusal, that answers it.
//! If we crash here: the broker delivers it again, and the run answers «already so».

use std::sync::Arc;

use bytes::Bytes;
use portcullis_engine::ports::{BusError, Source};
use portcullis_engine::{StepError, trace};
use portcullis_proto::decision::{Channel, DecisionError, SignedDecision};
use portcullis_proto::run::{Event, Reject};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, info, warn};

use crate::Scheduler;
use crate::deliveries::Settlement;

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
        let work = |scheduler: Arc<Self>, body: Bytes| async move {
            let received = scheduler.count(&body).await;
            told(&received);
            scheduler.engine.meters.decided(word(&received));
            settle(&received)
        };
        self.consume(Source::Decisions, stop, work).await
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
        let unknown = || {
            let (reject, place) = (Reject::UnknownApproval, 0);
            StepError::Rejected { reject, place, held: None }
        };
        let (held, _) = self.engine.load(&id.run()).await?;
        let held = held.ok_or_else(unknown)?;
        let (_, request) = held.run().approval(&id).ok_or_else(unknown)?;
        let standing = self.standing(request.pools(), &approver);
        let keys = Arc::clone(&self.settings.keys);
        let event = Event::Decide { signed: Box::new(signed), standing, keys };
        let span = trace::decision(&id, held.run());
        match self.engine.decide(&id.run(), held, event).instrument(span).await {
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
