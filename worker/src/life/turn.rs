//! What does this run need next: a plan, a call, a pause, or its end?
//!
//! Authority: the previewed run and the agent's definition as kept with the run.
//! Invariant: arguments are checked and frozen before the gate sees them, and the gate is asked
//! once more, on the very value that will be passed, when the call starts.

use std::sync::{Arc, Mutex};

use portcullis_engine::StepError;
use portcullis_engine::surroundings::Draw as _;
use portcullis_proto::call::{
    Call, OnDenied, OnUnknown, Progress, SideEffect, Status, Traits, args_hash, fingerprint,
};
use portcullis_proto::ids::{AgentName, JobKey, RunId, ToolName};
use portcullis_proto::job::{Attendance, Job, Parent, Payload};
use portcullis_proto::policy::{Terms, Verdict};
use portcullis_proto::run::{Ask, Event, Gating, Phase, PlannedCall, Reason, Start};
use serde_json::{Value, json};

use crate::gate;
use crate::life::Worker;
use crate::life::session::{End, Session, step_timeout};
use crate::models::playbook::{OnFailure, Playbook};
use crate::settings::{Agent, Brain, ToolKind};
use crate::tools::Tool;

/// How long the policy epoch is believed, in milliseconds. An old one can only deny.
const EPOCH_MS_MAX: i64 = 1_000;

/// The policy epoch as it was last read.
#[derive(Default)]
pub(super) struct EpochCache(Mutex<Option<(i64, u64)>>);

/// What comes next.
pub(super) enum Next {
    /// Another event for the same commit.
    Gather(Event),
    /// A call is to be started by this worker.
    Start(StartPlan),
    /// A call is to become a child run.
    Spawn(StartPlan, RunId, Box<Job>),
    /// The claim is over, by this event if there is one.
    Close(Option<Event>),
}

/// A call that is about to start, with exactly what will be passed.
#[derive(Clone)]
pub(super) struct StartPlan {
    pub(super) seq: u32,
    pub(super) tool_name: ToolName,
    pub(super) args: Value,
    pub(super) timeout_ms: i64,
    pub(super) start: Start,
    /// `None` for a child run.
    pub(super) tool: Option<Arc<dyn Tool>>,
}

/// What the claim needs in order to think: read once.
#[derive(Clone)]
pub(super) struct Thinking {
    agent: Arc<Agent>,
    playbook: Arc<Playbook>,
    scope: Value,
    definition: Payload,
}

pub(super) async fn next(worker: &Arc<Worker>, session: &mut Session) -> Result<Next, End> {
    let claim = session.claim;
    let now = worker.engine.now_since(session.held());
    match session.run().phase {
        Phase::Running { step_deadline, .. } if step_deadline <= now => {
            return Ok(fail(session, step_timeout(session.run())));
        }
        Phase::Running { .. } => {}
        // The claim itself ended the run: poison, or its parent is gone.
        Phase::Queued { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => {
            return Ok(Next::Close(None));
        }
    }
    if worker.draining.is_cancelled() {
        let why = "the worker is being stopped".to_owned();
        return Ok(Next::Close(Some(Event::Release { claim, backoff_ms: None, why })));
    }
    let thinking = match &session.brain {
        Some(thinking) => thinking.clone(),
        None => match think(worker, session).await? {
            Ok(thinking) => session.brain.insert(thinking).clone(),
            Err(reason) => return Ok(fail(session, reason)),
        },
    };
    let runnable = session.run().turn_calls().find(|call| call.is_runnable()).cloned();
    if let Some(call) = runnable {
        return begin(worker, session, &thinking, &call).await;
    }
    if session.run().turn_calls().all(Call::is_final) {
        return after_turn(worker, session, &thinking).await;
    }
    Ok(Next::Close(Some(Event::Park { claim })))
}

fn fail(session: &Session, reason: Reason) -> Next {
    Next::Close(Some(Event::Fail { claim: session.claim, reason }))
}

/// Reads the agent's definition and the run's input.
async fn think(worker: &Arc<Worker>, session: &Session) -> Result<Result<Thinking, Reason>, End> {
    let run = session.run();
    let Some(agent) = worker.settings.agents.get(&run.job.agent) else {
        let detail = format!("this worker knows no agent `{}`", run.job.agent);
        return Ok(Err(Reason::because("unknown_agent", &detail)));
    };
    let Brain::Playbook(current) = &agent.brain;
    let fetched = |why| End::of(StepError::Store(why));
    let input = worker.engine.fetch(&session.id, &run.job.input).await.map_err(fetched)?;
    let (playbook, definition) = match &run.definition {
        Some(kept) => {
            let source = worker.engine.fetch(&session.id, kept).await.map_err(fetched)?;
            let playbook = if source == *current.source() {
                Arc::clone(current)
            } else {
                match Playbook::of_source(&source) {
                    Ok(playbook) => Arc::new(playbook),
                    Err(why) => {
                        return Ok(Err(Reason::because("bad_definition", &why.to_string())));
                    }
                }
            };
            (playbook, kept.clone())
        }
        None => {
            let source = current.source().clone();
            let kept = worker.engine.keep(&session.id, source).await.map_err(fetched)?;
            (Arc::clone(current), kept)
        }
    };
    let scope = json!({ "input": input, "run": { "id": session.id } });
    Ok(Ok(Thinking { agent: Arc::clone(agent), playbook, scope, definition }))
}

/// A turn is settled: what its calls came to decides whether another one follows.
async fn after_turn(
    worker: &Arc<Worker>,
    session: &Session,
    thinking: &Thinking,
) -> Result<Next, End> {
    let (run, claim) = (session.run(), session.claim);
    if 0 < run.turn {
        let refused = run
            .turn_calls()
            .any(|call| call.refusal().is_some() && call.traits.on_denied == OnDenied::EndRun);
        if refused {
            return Ok(Next::Close(Some(Event::Done { claim, output: last_result(session) })));
        }
        let failed = run.turn_calls().find_map(failure);
        let step = usize::try_from(run.turn - 1).unwrap_or(usize::MAX);
        match (failed, thinking.playbook.on_failure(step)) {
            (Some(reason), OnFailure::Stop) => return Ok(fail(session, reason)),
            (Some(_), OnFailure::Continue) | (None, _) => {}
        }
    }
    let step = usize::try_from(run.turn).unwrap_or(usize::MAX);
    match thinking.playbook.plan(step, &thinking.scope) {
        Ok(Some(calls)) => plan(worker, session, thinking, calls).await,
        Ok(None) => Ok(Next::Close(Some(Event::Done { claim, output: last_result(session) }))),
        Err(why) => Ok(fail(session, Reason::because("plan_failed", &why.to_string()))),
    }
}

/// The result of the last call that finished: what the run gives to who started it.
fn last_result(session: &Session) -> Option<Payload> {
    session.run().calls.iter().rev().find_map(|call| match &call.progress {
        Progress::Finished { result, .. } => Some(result.clone()),
        Progress::Planned | Progress::Started { .. } | Progress::Spawned { .. } => None,
    })
}

fn failure(call: &Call) -> Option<Reason> {
    let Progress::Finished { status, .. } = &call.progress else { return None };
    let code = match status {
        Status::Succeeded | Status::CompletedWithDenials => return None,
        Status::Failed => "tool_failed",
        Status::NotRun => "tool_not_run",
        Status::Unknown => "outcome_unknown",
    };
    Some(Reason::because(code, &format!("call {} of `{}`: {code}", call.seq, call.tool)))
}

/// Freezes the calls of a turn and asks the gate about each.
async fn plan(
    worker: &Arc<Worker>,
    session: &Session,
    thinking: &Thinking,
    calls: Vec<(ToolName, Value)>,
) -> Result<Next, End> {
    let first = session.run().calls.len();
    let mut planned = Vec::with_capacity(calls.len());
    for (at, (tool, args)) in calls.into_iter().enumerate() {
        let seq = u32::try_from(first + at).map_err(|why| End::Broken(why.to_string()))?;
        match plan_call(worker, session, &thinking.agent, seq, tool, args).await? {
            Ok(call) => planned.push(call),
            Err(reason) => return Ok(fail(session, reason)),
        }
    }
    let total = first + planned.len();
    if portcullis_proto::call::CALLS_MAX < total {
        let max = portcullis_proto::call::CALLS_MAX;
        let detail = format!("the run would make {total} calls, at most {max} are possible");
        return Ok(fail(session, Reason::because("too_many_calls", &detail)));
    }
    let definition = Some(thinking.definition.clone());
    Ok(Next::Gather(Event::Planned { claim: session.claim, calls: planned, definition }))
}

async fn plan_call(
    worker: &Arc<Worker>,
    session: &Session,
    agent: &Agent,
    seq: u32,
    tool: ToolName,
    args: Value,
) -> Result<Result<PlannedCall, Reason>, End> {
    let known = agent.tools.get(&tool);
    let args = match known.map(|tool| &tool.kind) {
        Some(ToolKind::Local(local)) => match local.check(&args) {
            Ok(args) => args,
            Err(why) => {
                let detail = format!("call {seq} of `{tool}`: {why}");
                return Ok(Err(Reason::because("bad_arguments", &detail)));
            }
        },
        Some(ToolKind::Child) => match child_args(worker, &args) {
            Ok(_) => args,
            Err(why) => {
                let detail = format!("call {seq} of `{tool}`: {why}");
                return Ok(Err(Reason::because("bad_arguments", &detail)));
            }
        },
        None => args,
    };
    let digests = args_hash(&session.id, seq, &tool, &args)
        .and_then(|hash| fingerprint(&tool, &args).map(|print| (hash, print)));
    let (args_hash, fingerprint) = match digests {
        Ok(digests) => digests,
        Err(why) => {
            let detail = format!("call {seq} of `{tool}`: {why}");
            return Ok(Err(Reason::because("bad_arguments", &detail)));
        }
    };
    let verdict = gate::ask(&*worker.judge, agent, session.run(), &tool, &args).await;
    let gating = match verdict {
        Verdict::Allow => Gating::Allow,
        Verdict::Ask(terms) => Gating::Ask(ask(worker, terms).await?),
        Verdict::Deny { code, detail } => Gating::Deny { code, detail },
    };
    let traits = known.map_or(UNKNOWN_TOOL, |tool| tool.traits);
    let args = worker.engine.keep(&session.id, args).await;
    let args = args.map_err(|why| End::of(StepError::Store(why)))?;
    Ok(Ok(PlannedCall { tool, args, args_hash, fingerprint, traits, gating }))
}

/// A tool nobody knows is refused by the gate; until then it counts as the worst there is.
const UNKNOWN_TOOL: Traits = Traits {
    effect: SideEffect::AtMostOnce,
    timeout_ms: 0,
    on_denied: OnDenied::EndRun,
    on_unknown: OnUnknown::Fail,
};

/// Completes the gate's terms to a request.
pub(super) async fn ask(worker: &Arc<Worker>, terms: Terms) -> Result<Ask, End> {
    let now = worker.engine.surroundings.boot_ms();
    let cached = *worker.policy_epoch.0.lock().expect("no panic while held");
    let policy_epoch = match cached {
        Some((read, epoch)) if now - read < EPOCH_MS_MAX => epoch,
        Some(_) | None => {
            let epoch = worker.engine.store.policy_epoch().await;
            let epoch = epoch.map_err(|why| End::of(StepError::Store(why)))?;
            *worker.policy_epoch.0.lock().expect("no panic while held") = Some((now, epoch));
            epoch
        }
    };
    Ok(Ask { terms, nonce: worker.engine.surroundings.nonce(), policy_epoch })
}

/// Everything a call's start must show, worked out again from what will really be passed.
async fn begin(
    worker: &Arc<Worker>,
    session: &Session,
    thinking: &Thinking,
    call: &Call,
) -> Result<Next, End> {
    let args = worker.engine.fetch(&session.id, &call.args).await;
    let args = args.map_err(|why| End::of(StepError::Store(why)))?;
    let hash = args_hash(&session.id, call.seq, &call.tool, &args)
        .map_err(|why| End::Broken(why.to_string()))?;
    let agent = &thinking.agent;
    let verdict = gate::ask(&*worker.judge, agent, session.run(), &call.tool, &args).await;
    let start = Start { args_hash: hash, verdict, keys: Arc::clone(&worker.settings.keys) };
    let known = agent.tools.get(&call.tool).map(|tool| &tool.kind);
    let mut plan = StartPlan {
        seq: call.seq,
        tool_name: call.tool.clone(),
        args,
        timeout_ms: call.traits.timeout_ms,
        start,
        tool: None,
    };
    match known {
        Some(ToolKind::Local(tool)) => {
            plan.tool = Some(Arc::clone(tool));
            Ok(Next::Start(plan))
        }
        Some(ToolKind::Child) => match child_job(worker, session, agent, &plan) {
            Ok((child, job)) => Ok(Next::Spawn(plan, child, Box::new(job))),
            Err(why) => Ok(fail(session, Reason::because("bad_arguments", &why))),
        },
        None => {
            let detail = format!("this worker no longer has the tool `{}`", call.tool);
            let code = portcullis_proto::denial::DenialCode::PolicyDenied;
            let (claim, seq, detail) = (session.claim, call.seq, Some(detail));
            Ok(Next::Gather(Event::GateClosed { claim, seq, code, detail }))
        }
    }
}

/// The arguments of the `agent` tool: `{agent, input?, unattended?}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ChildArgs {
    agent: AgentName,
    #[serde(default)]
    input: Value,
    /// The child is not to count on the session that attends its parent. It can only give that up.
    #[serde(default)]
    unattended: bool,
}

fn child_args(worker: &Arc<Worker>, args: &Value) -> Result<ChildArgs, String> {
    let args: ChildArgs = serde_json::from_value(args.clone())
        .map_err(|why| format!("{why}; write {{\"agent\": name, \"input\": value}}"))?;
    if !worker.settings.agents.contains_key(&args.agent) {
        return Err(format!("no agent is called `{}`", args.agent));
    }
    Ok(args)
}

/// The one child of one call: origin and attendance inherited or narrowed, limits its own but never
/// beyond its parent's cap.
fn child_job(
    worker: &Arc<Worker>,
    session: &Session,
    _: &Agent,
    plan: &StartPlan,
) -> Result<(RunId, Job), String> {
    let ChildArgs { agent: name, input, unattended } = child_args(worker, &plan.args)?;
    let agent = &worker.settings.agents[&name];
    let run = session.run();
    let attendance = match unattended {
        true => run.job.attendance.narrowed(&Attendance::Unattended),
        false => run.job.attendance.clone(),
    };
    let key = JobKey::child(&session.id, plan.seq);
    let input_hash =
        portcullis_proto::digest::Digest::of_json(&input).map_err(|e| e.to_string())?;
    let now = worker.engine.now_since(session.held());
    let child = worker.engine.run_id(&key);
    let job = Job {
        key,
        tenant: run.job.tenant.clone(),
        agent: name,
        input: Payload::Inline(input),
        input_hash,
        origin: run.job.origin.clone(),
        attendance,
        limits: agent.limits,
        start_by: now.plus(agent.start_by_ms).min(run.hard_cap),
        parent: Some(Parent {
            run: session.id.clone(),
            call: plan.seq,
            depth: run.job.depth() + 1,
            hard_cap: run.hard_cap,
        }),
        trace: run.job.trace.clone(),
    };
    Ok((child, job))
}
