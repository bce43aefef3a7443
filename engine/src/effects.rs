//! Carries out what a durable change asked for.
//!
//! Authority: the record. Every effect stands in it until it is known to be done, so nothing here
//! may be relied on: the run's timer orders it again.
//! Invariant: an effect never changes a run by itself; what came of it goes back in as an event.

use std::sync::Arc;

use portcullis_proto::approval::{Delivery, State};
use portcullis_proto::call::Progress;
use portcullis_proto::ids::{ApprovalId, RunId};
use portcullis_proto::job::{Job, Payload};
use portcullis_proto::request::ApprovalRequest;
use portcullis_proto::run::{Effect, Ended, Event, Reason, Reject, Run};
use portcullis_proto::topology::Lane;
use serde_json::json;
use tracing::{Instrument as _, debug, warn};

use crate::drive::{Engine, Held, StepError};
use crate::ports::{Message, Published, Route, Wake};

/// So many changes have their effects performed at once. What comes beyond is left to the timer.
pub(crate) const PERFORMING_MAX: usize = 16_384;

impl Engine {
    /// Starts every effect of a change; none is waited for.
    pub(crate) fn perform(self: &Arc<Self>, id: &RunId, held: &Held, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        let Ok(place) = Arc::clone(&self.performing).try_acquire_owned() else {
            warn!(run.id = %id, "W022 too many effects under way, postponed to the timer");
            return;
        };
        let (engine, id, record) = (Arc::clone(self), id.clone(), Arc::clone(&held.record));
        let performing = async move {
            let _place = place;
            for effect in effects {
                engine.perform_one(&id, &record.run, effect).await;
            }
        };
        self.tasks.spawn(performing.in_current_span());
    }

    async fn perform_one(self: &Arc<Self>, id: &RunId, run: &Run, effect: Effect) {
        let name = format!("{effect:?}");
        let done = match effect {
            Effect::Wake(lane) => self.ring(id, run, lane).await,
            Effect::PublishRequest(approval) => self.publish_request(id, run, &approval).await,
            Effect::CreateChild(seq) => self.create_child(id, run, seq).await,
            Effect::CheckChild(seq) => self.check_child(id, run, seq).await,
            Effect::NotifyParent => self.notify_parent(id, run).await,
            Effect::CancelChild(seq) => self.cancel_child(id, run, seq).await,
        };
        match done {
            Ok(()) => {}
            // Somebody else was faster, or the run has moved on: nothing is lost.
            Err(StepError::Rejected { reject, .. }) => {
                debug!(run.id = %id, effect = name, %reject, "effect overtaken");
            }
            Err(why) => warn!(run.id = %id, effect = name, %why, "effect postponed to the timer"),
        }
    }

    async fn ring(self: &Arc<Self>, id: &RunId, run: &Run, lane: Lane) -> Result<(), StepError> {
        let wake = Wake { lane, tenant: run.job.tenant.clone(), run: id.clone() };
        match self.bus.wake(wake).await {
            Published::Confirmed => Ok(()),
            Published::Returned | Published::Nacked | Published::Unknown(_) => {
                self.meters.wake_failed();
                self.send(id, &[Event::WakeFailed]).await.map(|_| ())
            }
        }
    }

    async fn publish_request(
        self: &Arc<Self>,
        id: &RunId,
        run: &Run,
        approval: &ApprovalId,
    ) -> Result<(), StepError> {
        let Some((call, request)) = run.approval(approval) else { return Ok(()) };
        // Decided meanwhile, or known to be delivered.
        if !matches!(request.state, State::Requested(Delivery::Unsent(_))) {
            return Ok(());
        }
        let body = serde_json::to_vec(&ApprovalRequest::of(run, call, request))
            .map_err(crate::record::RecordError::from)?;
        let left = request.deadline.since(request.asked_at).max(1);
        let trace = run.job.trace.iter().map(|t| ("traceparent".to_owned(), t.traceparent.clone()));
        let message = Message {
            route: Route::Approval {
                tenant: run.job.tenant.clone(),
                pool: request.pool.clone(),
                risk: request.risk.as_str(),
            },
            message_id: request.message_id(),
            expiration_ms: u64::try_from(left).ok(),
            headers: trace.collect(),
            body: body.into(),
        };
        let (approval, rev) = (approval.clone(), request.rev);
        let published = self.bus.publish(message).await;
        self.meters.request_published(&published);
        let event = match published {
            Published::Confirmed => Event::Published { approval, rev },
            Published::Returned => Event::Unroutable { approval, rev },
            // The timer publishes it again; the deadline bounds all of it.
            Published::Nacked | Published::Unknown(_) => return Ok(()),
        };
        self.send(id, &[event]).await.map(|_| ())
    }

    async fn create_child(
        self: &Arc<Self>,
        id: &RunId,
        run: &Run,
        seq: u32,
    ) -> Result<(), StepError> {
        let Some((child, job)) = spawned(run, seq) else { return Ok(()) };
        self.accept_as(child, job.clone()).await?;
        self.send(id, &[Event::ChildCreated { seq }]).await.map(|_| ())
    }

    async fn check_child(
        self: &Arc<Self>,
        id: &RunId,
        run: &Run,
        seq: u32,
    ) -> Result<(), StepError> {
        let Some((child, job)) = spawned(run, seq) else { return Ok(()) };
        let (held, now) = self.load(child).await?;
        let Some(held) = held else {
            return self.accept_as(child, job.clone()).await.map(|_| ());
        };
        let child_now = portcullis_proto::run::effective(held.run(), now);
        match child_now.ended() {
            Some(ended) => self.send(id, &[child_done(seq, child, ended)]).await.map(|_| ()),
            None => Ok(()),
        }
    }

    async fn notify_parent(self: &Arc<Self>, id: &RunId, run: &Run) -> Result<(), StepError> {
        let (Some(parent), Some(ended)) = (&run.job.parent, run.ended()) else { return Ok(()) };
        let told = self.send(&parent.run, &[child_done(parent.call, id, ended)]).await;
        match told {
            // A parent that does not wait (any more) need not be told again.
            Ok(_) | Err(StepError::Rejected { .. }) => {
                self.send(id, &[Event::ParentNotified]).await.map(|_| ())
            }
            Err(other) => Err(other),
        }
    }

    async fn cancel_child(
        self: &Arc<Self>,
        id: &RunId,
        run: &Run,
        seq: u32,
    ) -> Result<(), StepError> {
        let Some((child, _)) = spawned(run, seq) else { return Ok(()) };
        let cancel = Event::Cancel { by: format!("run {id}"), reason: Reason::of("parent_ended") };
        match self.send(child, &[cancel]).await {
            // A child that does not exist yet finds its parent ended when it is first claimed.
            Ok(_) | Err(StepError::Rejected { .. }) => {
                self.send(id, &[Event::ChildEnded { seq }]).await.map(|_| ())
            }
            Err(other) => Err(other),
        }
    }

    /// Makes the run of a job, or finds the one it already has.
    ///
    /// # Errors
    /// When the store cannot be written, or the job's key was used with another input.
    pub async fn accept(self: &Arc<Self>, job: Job) -> Result<Accepted, StepError> {
        let id = self.run_id(&job.key);
        self.accept_as(&id, job).await
    }

    async fn accept_as(self: &Arc<Self>, id: &RunId, job: Job) -> Result<Accepted, StepError> {
        let event = Event::Accepted { id: id.clone(), job: Box::new(job) };
        match self.send(id, &[event]).await {
            Err(StepError::Rejected { reject: Reject::Duplicate, held, .. }) => {
                Ok(Accepted { id: id.clone(), duplicate: true, held: held.map(|held| *held) })
            }
            Err(other) => Err(other),
            Ok(held) => Ok(Accepted { id: id.clone(), duplicate: false, held: Some(held) }),
        }
    }
}

/// What became of an offered job.
#[derive(Debug)]
pub struct Accepted {
    pub id: RunId,
    /// The run existed before.
    pub duplicate: bool,
    pub held: Option<Held>,
}

fn spawned(run: &Run, seq: u32) -> Option<(&RunId, &Job)> {
    match &run.call(seq)?.progress {
        Progress::Spawned { child, job, .. } => Some((child, job)),
        Progress::Planned | Progress::Started { .. } | Progress::Finished { .. } => None,
    }
}

/// A child's end as the event its parent waits for. Its output goes along by reference only.
fn child_done(seq: u32, child: &RunId, ended: &Ended) -> Event {
    let output = match &ended.output {
        Some(Payload::Inline(value)) => value.clone(),
        Some(Payload::Stored { digest, bytes }) => json!({ "stored": digest, "bytes": bytes }),
        None => serde_json::Value::Null,
    };
    let result = json!({
        "run": child,
        "outcome": ended.outcome,
        "code": ended.reason.code,
        "detail": ended.reason.detail,
        "output": output,
    });
    Event::ChildDone {
        seq,
        child: child.clone(),
        outcome: ended.outcome,
        result: Payload::Inline(result),
    }
}
