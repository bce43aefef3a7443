//! Runs one released call under its limits, and keeps the lease alive while it runs.
//!
//! Authority: the committed start. Without the [`Released`] it was given, nothing here compiles.
//! Invariant: a claim that cannot be renewed stops the tool; the tool's time ends before the
//! step's, so that what came of it can still be recorded.
//! If we crash here: the tool's process dies with us, and the record says «started».

use std::sync::Arc;
use std::time::Duration;

use portcullis_engine::release::Released;
use portcullis_proto::call::Status;
use portcullis_proto::job::Payload;
use portcullis_proto::run::{Event, Phase};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info, info_span, warn};

use crate::life::Worker;
use crate::life::session::{End, Session};
use crate::life::turn::StartPlan;
use crate::settings::STEP_RESERVE_MS;
use crate::tools::{Invocation, Outcome};

/// How often the lease is renewed, in milliseconds: a third of its length.
const RENEW_MS: u64 = 10_000;

/// A committed start, and what to do with it.
pub(super) struct Start {
    pub(super) released: Released,
    pub(super) plan: StartPlan,
}

/// Runs the call to its end and gathers what came of it.
pub(super) async fn act(
    worker: &Arc<Worker>,
    session: &mut Session,
    start: Start,
) -> Result<(), End> {
    let Start { released, plan } = start;
    let seq = released.seq();
    let (status, value) = match released.still_fresh(&worker.engine) {
        Ok(released) => run_action(worker, session, released, plan).await?,
        Err(passed_ms) => {
            warn!(run.id = %session.id, call = seq, passed_ms, "W014 start too old, not run");
            (Status::NotRun, json!({ "error": "not_run", "why": "the worker was suspended" }))
        }
    };
    let result = match worker.engine.keep(&session.id, value).await {
        Ok(result) => result,
        Err(why) => Payload::Inline(json!({ "error": "result_lost", "why": why.to_string() })),
    };
    let claim = session.claim;
    session.gather(Event::FinishTool { claim, seq, status, result })
}

/// Takes the release by value: one start, one execution.
async fn run_action(
    worker: &Arc<Worker>,
    session: &mut Session,
    released: Released,
    plan: StartPlan,
) -> Result<(Status, Value), End> {
    let Some(tool) = plan.tool else {
        return Ok((Status::NotRun, json!({ "error": "not_run", "why": "no such tool" })));
    };
    let now = worker.engine.now_since(session.held());
    let left = match session.run().phase {
        Phase::Running { step_deadline, .. } => step_deadline.since(now),
        Phase::Queued { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => 0,
    };
    let reserve = STEP_RESERVE_MS.min(left / 4);
    let timeout_ms = plan.timeout_ms.min(left - reserve).max(0);
    let cancel = CancellationToken::new();
    let call = Invocation {
        args: plan.args,
        idempotency_key: released.idempotency_key(),
        claim_id: released.claim().to_string(),
        not_after_ms: now.plus(timeout_ms).0,
        timeout: Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0)),
        cancel: cancel.clone(),
    };
    info!(run.id = %session.id, call = plan.seq, tool = %plan.tool_name, "call begins");
    let span = info_span!("call", call = plan.seq, tool = %plan.tool_name);
    let mut running = tool.run(call).instrument(span);
    let mut renewals = tokio::time::interval(Duration::from_millis(RENEW_MS));
    renewals.tick().await;
    let mut lost = None;
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut running => break outcome,
            () = worker.killing.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            _ = renewals.tick(), if lost.is_none() => {
                if let Err(end) = keep_lease(worker, session).await {
                    let call = plan.seq;
                    warn!(run.id = %session.id, call, ?end, "W012 claim lost, tool stopped");
                    lost = Some(end);
                    cancel.cancel();
                }
            }
        }
    };
    match lost {
        Some(end) => Err(end),
        None => Ok(reported(outcome)),
    }
}

/// Renews; an outage is borne as long as the lease itself lasts.
async fn keep_lease(worker: &Arc<Worker>, session: &mut Session) -> Result<(), End> {
    let renewed = session.renew(worker).await;
    let lease_left = |session: &Session| match session.held().run().phase {
        Phase::Running { lease_until, .. } => {
            lease_until.since(worker.engine.now_since(session.held()))
        }
        Phase::Queued { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => 0,
    };
    match renewed {
        Ok(()) => Ok(()),
        Err(why) if why.is_outage() && 0 < lease_left(session) - RENEW_MS.cast_signed() => Ok(()),
        Err(why) => Err(End::of(why)),
    }
}

fn reported(outcome: Outcome) -> (Status, Value) {
    match outcome {
        Outcome::Succeeded(value) => (Status::Succeeded, value),
        Outcome::Failed(value) => (Status::Failed, value),
        Outcome::NotRun(why) => {
            let value = json!({ "error": why.code.as_str(), "message": why.message });
            (Status::NotRun, value)
        }
    }
}
