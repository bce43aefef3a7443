//! The only value that lets a tool run.
//!
//! Authority: the commit of `StartTool`. A [`Released`] exists only for one that was answered.
//! Invariant: its field is private and it cannot be cloned, so acting without a committed start,
//! or twice on one, does not compile.
//! If we crash with one in hand: the record says «started», and the run ends as «outcome unknown».

use std::sync::Arc;

use portcullis_proto::ids::{ClaimId, RunId};
use portcullis_proto::run::Event;

use crate::drive::{Engine, Held, StepError};

/// A start must be acted on within this time of sending its commit, in milliseconds.
pub const START_MS_MAX: i64 = 5_000;

/// One call may begin, once, now.
#[derive(Debug)]
pub struct Released {
    run: RunId,
    seq: u32,
    claim: ClaimId,
    sent_boot_ms: i64,
}

impl Released {
    #[must_use]
    pub const fn seq(&self) -> u32 {
        self.seq
    }

    /// The same over all tries of the call.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.run, self.seq)
    }

    #[must_use]
    pub fn claim(&self) -> ClaimId {
        self.claim
    }

    /// Gives the start up when the process was frozen since: what was true then may not be now.
    ///
    /// # Errors
    /// The milliseconds that passed, when they are [`START_MS_MAX`] or more.
    pub fn still_fresh(self, engine: &Engine) -> Result<Self, i64> {
        let passed = engine.surroundings.boot_ms() - self.sent_boot_ms;
        if passed < START_MS_MAX { Ok(self) } else { Err(passed) }
    }
}

impl Engine {
    /// Commits events of which the last starts a call.
    ///
    /// # Errors
    /// See [`StepError`]. An unknown outcome is one: the call is not authorised then.
    ///
    /// # Panics
    /// When the last event is no `StartTool`.
    pub async fn start(
        self: &Arc<Self>,
        id: &RunId,
        held: Option<Held>,
        events: &[Event],
    ) -> Result<(Held, Released), StepError> {
        let Some(Event::StartTool { claim, seq, .. }) = events.last() else {
            panic!("a start ends in StartTool");
        };
        let sent_boot_ms = self.surroundings.boot_ms();
        let held = self.step(id, held, events).await?;
        let released = Released { run: id.clone(), seq: *seq, claim: *claim, sent_boot_ms };
        Ok((held, released))
    }
}
