//! Where does an offered job go while the store is down?
//!
//! Authority: the broker, once it has confirmed the message; the store again, once a scheduler
//! has made the run's record from it.
//! Invariant: a message from another installation becomes no run here. What is left on the broker
//! carries its own key and `start_by`: twice the same is once, and too late is never.
//! If we crash here: unconfirmed, the sender got no answer; confirmed, the broker delivers again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use portcullis_engine::ports::{BusError, Message, Published, Route, Source};
use portcullis_engine::{Accepted, StepError};
use portcullis_proto::envelope::{self, DecodeError, JobEnvelope};
use portcullis_proto::ids::RunId;
use portcullis_proto::job::Payload;
use portcullis_proto::run::Reject;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Scheduler;
use crate::deliveries::Settlement;
use crate::offer::{Offer, OfferError};

/// How long the broker may take to confirm, in milliseconds; the sender waits meanwhile.
const CONFIRM_MS_MAX: u64 = 3_000;

/// What came of an envelope.
#[derive(Debug)]
enum Received {
    Accepted(RunId),
    Duplicate(RunId),
    Rejected(Reject),
    NoStore(StepError),
    Undecodable(DecodeError),
    /// Left for an installation whose store this is not.
    OtherEpoch,
    /// No trigger leaves such a job: only a parent run makes children.
    NoTriggersJob,
}

const fn settle(received: &Received) -> Settlement {
    match received {
        Received::Accepted(_) | Received::Duplicate(_) | Received::Rejected(_) => Settlement::Ack,
        Received::NoStore(_) => Settlement::Hold,
        Received::Undecodable(_) | Received::OtherEpoch | Received::NoTriggersJob => {
            Settlement::DeadLetter
        }
    }
}

impl Scheduler {
    /// Accepts what a trigger offers: in the store, or, while that is down, on the broker.
    pub(crate) async fn take(&self, offer: Offer) -> Result<Accepted, OfferError> {
        match self.offer(offer.clone()).await {
            Err(why) if why.is_outage() => match self.leave(offer).await {
                Ok(id) => {
                    info!(run.id = %id, %why, "job left on the broker: the store is down");
                    Ok(Accepted { id, duplicate: false, held: None })
                }
                Err(also) => {
                    warn!(%why, %also, "neither store nor broker took a job");
                    Err(why)
                }
            },
            answer => answer,
        }
    }

    /// Publishes the whole job, and returns once the broker has confirmed it.
    async fn leave(&self, offer: Offer) -> Result<RunId, String> {
        // Without any idea of the store's time there is no `start_by` to give it.
        let now = self.clock.guess(&self.engine).ok_or("the store never told its time")?;
        let input = Payload::Inline(offer.input.clone());
        let job = self.job_of(offer, input, now).map_err(|why| why.to_string())?;
        let (id, trace) = (self.engine.run_id(&job.key), job.trace.clone());
        let epoch = self.engine.store.shape().epoch;
        let body = envelope::encode(&JobEnvelope { epoch, job }).map_err(|why| why.to_string())?;
        let message = Message {
            route: Route::Intake,
            message_id: id.to_string(),
            expiration_ms: None,
            headers: trace.map(|t| ("traceparent".to_owned(), t.traceparent)).into_iter().collect(),
            body: body.into(),
        };
        let publishing = self.engine.bus.publish(message);
        match tokio::time::timeout(Duration::from_millis(CONFIRM_MS_MAX), publishing).await {
            Ok(Published::Confirmed) => Ok(id),
            Ok(Published::Returned) => Err("the broker has no queue for it".into()),
            Ok(Published::Nacked) => Err("the broker would not take it".into()),
            Ok(Published::Unknown(why)) => Err(why),
            Err(_) => Err(format!("the broker did not confirm within {CONFIRM_MS_MAX} ms")),
        }
    }

    /// Makes runs of what was left on the broker, until `stop`.
    ///
    /// # Errors
    /// When the bus refuses the subscription.
    pub(crate) async fn take_intake(
        self: &Arc<Self>,
        stop: CancellationToken,
    ) -> Result<(), BusError> {
        let work = |scheduler: Arc<Self>, body: Bytes| async move {
            let received = scheduler.take_back(&body).await;
            told(&received);
            scheduler.meters.intake(word(&received));
            settle(&received)
        };
        self.consume(Source::Intake, stop, work).await
    }

    async fn take_back(&self, body: &[u8]) -> Received {
        let JobEnvelope { epoch, mut job } = match envelope::decode(body) {
            Ok(envelope) => envelope,
            Err(why) => return Received::Undecodable(why),
        };
        if epoch != self.engine.store.shape().epoch {
            return Received::OtherEpoch;
        }
        if job.parent.is_some() {
            return Received::NoTriggersJob;
        }
        if let Payload::Inline(value) = job.input {
            let id = self.engine.run_id(&job.key);
            match self.engine.keep(&id, value).await {
                Ok(kept) => job.input = kept,
                Err(why) => return Received::NoStore(why.into()),
            }
        }
        match self.accept(job).await {
            Ok(Accepted { id, duplicate: false, .. }) => Received::Accepted(id),
            Ok(Accepted { id, duplicate: true, .. }) => Received::Duplicate(id),
            Err(StepError::Rejected { reject, .. }) => Received::Rejected(reject),
            Err(why) => Received::NoStore(why),
        }
    }
}

const fn word(received: &Received) -> &'static str {
    match received {
        Received::Accepted(_) => "accepted",
        Received::Duplicate(_) => "duplicate",
        Received::Rejected(reject) => reject.code(),
        Received::NoStore(_) => "unavailable",
        Received::Undecodable(_) => "undecodable",
        Received::OtherEpoch => "other_epoch",
        Received::NoTriggersJob => "no_triggers_job",
    }
}

fn told(received: &Received) {
    let code = word(received);
    match received {
        Received::Accepted(id) => info!(run.id = %id, "job taken back from the broker"),
        Received::Duplicate(id) => info!(run.id = %id, "job on the broker was a run already"),
        Received::Rejected(reject) => warn!(code, %reject, "job on the broker refused"),
        Received::NoStore(why) => warn!(code, %why, "job held"),
        Received::Undecodable(why) => warn!(code, %why, "W042 job dead-lettered"),
        Received::OtherEpoch | Received::NoTriggersJob => warn!(code, "W042 job dead-lettered"),
    }
}

#[cfg(test)]
mod tests;
