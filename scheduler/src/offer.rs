//! How does what a trigger wants become one accepted run?
//!
//! Authority: the store; a job is accepted once its record is durable.
//! Invariant: the same key is the same run. A repeat is answered only after the record it found is
//! known to be as durable as a new one would be.
//! If we crash here: nothing was answered, and the trigger comes again under the same key.

use portcullis_engine::ports::StoreError;
use portcullis_engine::{Accepted, StepError, trace};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{AgentName, JobKey, Tenant};
use portcullis_proto::job::{Attendance, Job, Origin, Payload, Trace};
use portcullis_proto::time::Ms;
use serde_json::Value;

use crate::Scheduler;

/// What a trigger wants done.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) key: JobKey,
    pub(crate) tenant: Tenant,
    pub(crate) agent: AgentName,
    pub(crate) input: Value,
    pub(crate) input_hash: Digest,
    pub(crate) origin: Origin,
    pub(crate) attendance: Attendance,
    /// How long it may wait for a worker, in milliseconds; otherwise the agent's own time.
    pub(crate) start_by_ms: Option<i64>,
    /// Where in a trace it began; without one, a new trace begins.
    pub(crate) trace: Option<Trace>,
}

/// Why an offer became no run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OfferError {
    #[error("no agent `{0}` is configured")]
    UnknownAgent(AgentName),
    #[error(transparent)]
    Step(#[from] StepError),
}

impl From<StoreError> for OfferError {
    fn from(why: StoreError) -> Self {
        Self::Step(why.into())
    }
}

impl OfferError {
    /// Whether the store could not be asked, or may not be relied on.
    pub(crate) const fn is_outage(&self) -> bool {
        match self {
            Self::UnknownAgent(_) => false,
            Self::Step(why) => why.is_outage(),
        }
    }
}

impl Scheduler {
    /// Makes the run of an offer, or finds the one it has.
    pub(crate) async fn offer(&self, offer: Offer) -> Result<Accepted, OfferError> {
        let id = self.engine.run_id(&offer.key);
        let now = self.clock.now(&self.engine).await?;
        let payload = self.engine.keep(&id, offer.input.clone()).await?;
        let job = self.job_of(offer, payload, now)?;
        Ok(self.accept(job).await?)
    }

    /// Accepts a job; a repeat is confirmed before it is believed.
    pub(crate) async fn accept(&self, job: Job) -> Result<Accepted, StepError> {
        let accepted = self.engine.accept(job).await?;
        if accepted.duplicate {
            // The first commit may have been answered «not durable»: its repeat must not be the
            // way to a yes all the same.
            self.engine.confirm(&accepted.id).await?;
        }
        Ok(accepted)
    }

    /// The job that an offer asks for.
    pub(crate) fn job_of(&self, offer: Offer, input: Payload, now: Ms) -> Result<Job, OfferError> {
        let Some(agent) = self.settings.agents.get(&offer.agent) else {
            return Err(OfferError::UnknownAgent(offer.agent));
        };
        let start_by_ms = offer.start_by_ms.unwrap_or(agent.start_by_ms);
        Ok(Job {
            key: offer.key,
            tenant: offer.tenant,
            agent: offer.agent,
            input,
            input_hash: offer.input_hash,
            origin: offer.origin,
            attendance: offer.attendance,
            limits: agent.limits,
            start_by: now.plus(start_by_ms),
            parent: None,
            // Our own span, if it is exported, goes on where the trigger's context began.
            trace: trace::here().or(offer.trace).or_else(|| Some(self.new_trace())),
        })
    }

    fn new_trace(&self) -> Trace {
        let mut bytes = [0; 24];
        self.engine.surroundings.fill(&mut bytes);
        // Neither id may be all zeros (W3C Trace Context, section 3.2.2).
        (bytes[0], bytes[16]) = (bytes[0] | 1, bytes[16] | 1);
        let hex = |part: &[u8]| data_encoding::HEXLOWER.encode(part);
        let (trace, span) = (hex(&bytes[..16]), hex(&bytes[16..]));
        Trace { traceparent: format!("00-{trace}-{span}-00") }
    }
}
