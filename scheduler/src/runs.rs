//! How are runs started, found and cancelled through the API?
//!
//! Authority: the store. What is shown is the state as time has decided it.
//! Invariant: reading changes nothing. A session that can answer is declared by the approver
//! itself, with its own credential, and never taken from what a caller says about somebody else.

use portcullis_engine::{Accepted, StepError};
use portcullis_proto::digest::{CanonicalError, Digest};
use portcullis_proto::ids::{AgentName, JobKey, RunId, Subject, Tenant};
use portcullis_proto::job::{Attendance, Origin, Payload, Trace};
use portcullis_proto::run::{Event, Outcome, PHASES, Phase, Reason, Reject, Run, effective};

use serde_json::Value;

use crate::Scheduler;
use crate::credentials::Caller;
use crate::lists::Place;
use crate::offer::{Offer, OfferError};
use crate::settings::START_BY_MS_MAX;
use crate::view::{RunRow, RunView};

/// The longest idempotency key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 256;
/// Stored values up to this many bytes are shown in a run; longer ones by digest.
const SHOWN_BYTES_MAX: u64 = 256 * 1024;

/// A start that was asked for.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) agent: AgentName,
    pub(crate) input: Value,
    pub(crate) tenant: Tenant,
    /// `None`: every call is another job.
    pub(crate) key: Option<String>,
    /// Whose session can answer.
    pub(crate) attended: Option<Subject>,
    pub(crate) start_by_seconds: Option<f64>,
    pub(crate) trace: Option<Trace>,
}

/// Why no run was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStarted {
    #[error("the idempotency key must have 1 to {KEY_BYTES_MAX} bytes")]
    Key,
    #[error("`start_by_seconds` must be more than 0 and at most {}", START_BY_MS_MAX / 1_000)]
    StartBy,
    #[error("the input cannot be identified: {0}")]
    Input(#[from] CanonicalError),
    #[error("a session of `{0}` is declared with the token of `{0}`, and no other")]
    NotThatApprover(Subject),
    #[error("the idempotency key was used before, for another agent or another input")]
    KeyReused,
    #[error(transparent)]
    Offer(#[from] OfferError),
}

impl Scheduler {
    /// Starts a run, or finds the one that the same key has started.
    pub(crate) async fn start(
        &self,
        start: Start,
        caller: &Caller,
    ) -> Result<Accepted, NotStarted> {
        let started = self.try_start(start, caller).await;
        self.meters.start(match &started {
            Ok(Accepted { duplicate: false, .. }) => "accepted",
            Ok(Accepted { duplicate: true, .. }) => "duplicate",
            Err(NotStarted::Offer(OfferError::Step(_))) => "store",
            Err(_) => "refused",
        });
        started
    }

    async fn try_start(&self, start: Start, caller: &Caller) -> Result<Accepted, NotStarted> {
        let agent = start.agent.clone();
        let accepted = match self.take(self.offer_of(start, caller)?).await {
            Err(OfferError::Step(StepError::Rejected { reject: Reject::KeyReused, .. })) => {
                return Err(NotStarted::KeyReused);
            }
            answer => answer?,
        };
        // The same input for another agent is another job, and must not pass for this one.
        let other = accepted.held.as_ref().is_some_and(|held| held.run().job.agent != agent);
        if accepted.duplicate && other { Err(NotStarted::KeyReused) } else { Ok(accepted) }
    }

    fn offer_of(&self, start: Start, caller: &Caller) -> Result<Offer, NotStarted> {
        let key = match &start.key {
            Some(key) if (1..=KEY_BYTES_MAX).contains(&key.len()) => key.as_bytes().to_vec(),
            Some(_) => return Err(NotStarted::Key),
            None => {
                let mut random = vec![0; 16];
                self.engine.surroundings.fill(&mut random);
                random
            }
        };
        let attendance = match (start.attended, caller) {
            (None, _) => Attendance::Unattended,
            (Some(approver), Caller::Approver(proven)) if proven.subject == approver => {
                Attendance::Session { approver }
            }
            (Some(approver), Caller::Approver(_) | Caller::Token | Caller::Local) => {
                return Err(NotStarted::NotThatApprover(approver));
            }
        };
        Ok(Offer {
            key: JobKey::api(&start.tenant, &key),
            tenant: start.tenant,
            agent: start.agent,
            input_hash: Digest::of_json(&start.input)?,
            input: start.input,
            origin: Origin::Api,
            attendance,
            start_by_ms: start.start_by_seconds.map(start_by_ms).transpose()?,
            trace: start.trace,
        })
    }

    /// A page of runs, newest first, and where the next one begins.
    pub(crate) async fn runs(
        &self,
        phase: Option<&'static str>,
        after: Option<&Place>,
        limit: usize,
    ) -> Result<(Vec<RunRow>, Option<Place>), StepError> {
        let phases = PHASES.iter().filter(|name| phase.is_none_or(|wanted| wanted == **name));
        let indexes: Vec<String> = phases.map(|name| format!("run.{name}")).collect();
        let entries = self.newest(&indexes, after, limit).await?;
        let next = entries.last().filter(|_| entries.len() == limit).map(Place::of);
        let ids = entries.iter().filter_map(|entry| RunId::new(entry.member.as_str()).ok());
        let loaded = self.load_all(ids).await?;
        let rows = loaded.iter().map(|(held, now)| RunRow::of(&effective(held.run(), *now), *now));
        // Time may have moved a run to another phase than the list says.
        let rows = rows.filter(|row| phase.is_none_or(|wanted| wanted == row.phase));
        Ok((rows.collect(), next))
    }

    /// One run with its calls, its history and what comes next.
    pub(crate) async fn show_run(&self, id: &RunId) -> Result<Option<RunView>, StepError> {
        let (held, now) = self.engine.load(id).await?;
        let Some(held) = held else { return Ok(None) };
        let mut run = effective(held.run(), now);
        self.show(id, &mut run.job.input).await?;
        if let Phase::Ended(ended) = &mut run.phase
            && let Some(output) = &mut ended.output
        {
            self.show(id, output).await?;
        }
        Ok(Some(RunView::of(&run, &held.record, now)))
    }

    /// Puts a stored value in place of its digest when it is short enough to be shown.
    pub(crate) async fn show(&self, run: &RunId, payload: &mut Payload) -> Result<(), StepError> {
        match payload {
            Payload::Stored { bytes, .. } if *bytes <= SHOWN_BYTES_MAX => {
                *payload = Payload::Inline(self.engine.fetch(run, payload).await?);
            }
            Payload::Stored { .. } | Payload::Inline(_) => {}
        }
        Ok(())
    }

    /// Cancels a run. A run that was cancelled before is told as it is.
    pub(crate) async fn cancel(
        &self,
        id: &RunId,
        by: &Caller,
        why: Option<&str>,
    ) -> Result<Run, StepError> {
        let reason = match why {
            Some(why) => Reason::because("cancelled", why),
            None => Reason::of("cancelled"),
        };
        let cancel = Event::Cancel { by: by.to_string(), reason };
        match self.engine.send(id, &[cancel]).await {
            Ok(held) => Ok(held.run().clone()),
            Err(StepError::Rejected { reject: Reject::Terminal, held: Some(held), .. })
                if held.run().ended().is_some_and(|e| e.outcome == Outcome::Cancelled) =>
            {
                let held = self.engine.confirm(id).await?;
                Ok(held.run().clone())
            }
            Err(other) => Err(other),
        }
    }
}

/// Seconds as milliseconds, if they are a number within bounds.
fn start_by_ms(seconds: f64) -> Result<i64, NotStarted> {
    let ms = seconds * 1_000.0;
    #[expect(clippy::cast_precision_loss, reason = "a week of milliseconds is exact")]
    let within = 1.0 <= ms && ms <= START_BY_MS_MAX as f64;
    #[expect(clippy::cast_possible_truncation, reason = "bounded in the line above")]
    if within { Ok(ms as i64) } else { Err(NotStarted::StartBy) }
}
