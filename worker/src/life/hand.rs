//! A free slot that takes a run over together with the decision it waits for.
//!
//! Authority: the one commit that holds the word, the claim and whatever follows from them.
//! Invariant: the word counts here exactly as it would by itself, or nothing is said of it.
//! If we crash here: whoever decided has no answer, asks again, and learns what the record says.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use portcullis_engine::Held;
use portcullis_engine::resume::Resume;
use portcullis_engine::surroundings::Draw as _;
use portcullis_proto::run::{Event, Parentage};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::life::receive::Busy;
use crate::life::session::Session;
use crate::life::{Worker, live_claimed, span_of};

/// Who decides waits this long for a worker that thinks, in milliseconds. Then the word is sent by
/// itself, and the worker finds it said.
const RESUME_MS_MAX: u64 = 5_000;

/// The free slots of one worker.
pub(super) struct Hand {
    pub(super) worker: Arc<Worker>,
    pub(super) slots: Arc<Semaphore>,
    pub(super) lives: TaskTracker,
}

#[async_trait]
impl Resume for Hand {
    async fn resume(&self, held: Held, word: &Event) -> Option<Held> {
        // A child asks its parent first, which a wake can wait for and a decider should not.
        if self.worker.draining.is_cancelled() || held.run().job.parent.is_some() {
            return None;
        }
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let claim = self.worker.engine.surroundings.claim_id();
        let mut session = Session::new(held.run().id.clone(), claim, held);
        session.carry(word.clone()).ok()?;
        session.try_gather(Event::Claim { claim, parentage: Parentage::None }).ok()?;
        let (tell, told) = oneshot::channel();
        let worker = Arc::clone(&self.worker);
        self.lives.spawn(async move {
            let busy = Busy::count(&worker);
            let span = span_of(&session);
            let answered = |_, session: &Session| {
                // Nobody listens any more when whoever decided hung up.
                let _heard = tell.send(session.has_said_it().then(|| session.held().clone()));
            };
            live_claimed(&worker, session, answered).instrument(span).await;
            drop((busy, slot));
        });
        tokio::time::timeout(Duration::from_millis(RESUME_MS_MAX), told).await.ok()?.ok()?
    }
}
