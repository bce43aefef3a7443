//! The life of one claim, on one screen: claim → (plan → gate → call)* → park or settle.
//!
//! Authority: the run's record. This worker's view of it is a guess until a commit is answered.
//! Invariant: nothing waits in here for a person or a child; a claim that can go no further
//! parks. Events are gathered and committed together, at the latest before anything acts.
//! If we crash here: the lease lapses, and the record says what had been started.

mod call;
mod claim;
mod hand;
pub mod receive;
mod session;
mod turn;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use portcullis_engine::{Engine, trace};
use portcullis_proto::ids::RunId;
use portcullis_proto::run::Event;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, info_span};

use crate::gate::Judge;
use crate::settings::Settings;
pub use claim::Received;
use session::{End, Session};
use turn::Next;

/// What every life of this worker shares.
pub struct Worker {
    pub engine: Arc<Engine>,
    pub settings: Settings,
    pub judge: Arc<dyn Judge>,
    /// Set once: running tools may finish, nothing new begins.
    pub draining: CancellationToken,
    /// Set when the time for that is over: tools are stopped.
    pub killing: CancellationToken,
    /// How many runs it works on now.
    pub busy: AtomicUsize,
    policy_epoch: turn::EpochCache,
}

impl Worker {
    #[must_use]
    pub fn new(engine: Arc<Engine>, settings: Settings, judge: Arc<dyn Judge>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            settings,
            judge,
            draining: CancellationToken::new(),
            killing: CancellationToken::new(),
            busy: AtomicUsize::new(0),
            policy_epoch: turn::EpochCache::default(),
        })
    }
}

/// Lives one claim from the wake to its end. `received` is told once the wake may be settled.
pub async fn live(worker: &Arc<Worker>, id: &RunId, received: impl FnOnce(Received) + Send) {
    match claim::begin(worker, id).await {
        Ok(session) => {
            let span = span_of(&session);
            live_claimed(worker, session, |answer, _| received(answer)).instrument(span).await;
        }
        Err(why) => received(why),
    }
}

/// A run's claims are one trace, as long as none is lost.
fn span_of(session: &Session) -> Span {
    let run = session.run();
    let attempt = run.attempts;
    let span = info_span!("run", run.id = %run.id, agent = %run.job.agent, attempt);
    match &run.job.trace {
        Some(trace) if attempt <= 1 => trace::go_on(&span, trace),
        Some(trace) => trace::link(&span, trace),
        None => {}
    }
    span
}

async fn live_claimed(
    worker: &Arc<Worker>,
    mut session: Session,
    received: impl FnOnce(Received, &Session) + Send,
) {
    // The claim travels with the first commit that follows from it.
    let mut reached = advance(worker, &mut session).await;
    received(Received::of(&session, &reached), &session);
    loop {
        match reached {
            Ok(Reached::Start(start)) => {
                if let Err(end) = call::act(worker, &mut session, *start).await {
                    return session.abandon(worker, end).await;
                }
                reached = advance(worker, &mut session).await;
            }
            Ok(Reached::Over) => return,
            Err(end) => return session.abandon(worker, end).await,
        }
    }
}

/// How far the events could be taken.
enum Reached {
    /// A call's start is committed: it must be acted on now.
    Start(Box<call::Start>),
    /// Parked, released or ended; committed.
    Over,
}

/// Gathers events until something has to act or the claim is over, and commits them.
async fn advance(worker: &Arc<Worker>, session: &mut Session) -> Result<Reached, End> {
    loop {
        match turn::next(worker, session).await? {
            Next::Gather(event) => session.gather(event)?,
            Next::Start(plan) => {
                let claim = session.claim;
                let event = Event::StartTool { claim, seq: plan.seq, start: plan.start.clone() };
                match session.try_gather(event) {
                    Ok(()) => {
                        if let Some(released) = session.commit_start(worker, &plan).await? {
                            return Ok(Reached::Start(Box::new(call::Start { released, plan })));
                        }
                    }
                    Err(reject) => session.refuse(worker, &plan, &reject).await?,
                }
            }
            Next::Spawn(plan, child, job) => {
                let (claim, seq, start) = (session.claim, plan.seq, plan.start.clone());
                let event = Event::SpawnChild { claim, seq, start, child, job };
                if let Err(reject) = session.try_gather(event) {
                    session.refuse(worker, &plan, &reject).await?;
                }
            }
            Next::Close(event) => {
                if let Some(event) = event {
                    session.gather(event)?;
                }
                if session.commit_close(worker).await? {
                    return Ok(Reached::Over);
                }
            }
        }
    }
}
