//! Who in this process can go on with a run at once?
//!
//! A decision usually ends in a commit and a wake, and a worker that hears the wake commits its
//! claim and the start of the call. A worker in the same process that has a free slot does all of
//! it in one commit: one fsync and no message between a yes and the call that it lets through.
//!
//! Authority: the commit, as ever. Invariant: this is an economy only. What was not resumed is
//! committed and rung for as if nobody had been here.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use portcullis_proto::ids::RunId;
use portcullis_proto::run::Event;

use crate::drive::{Engine, Held, StepError};

/// Somebody with free hands.
#[async_trait]
pub trait Resume: Send + Sync {
    /// Commits a word about a run together with a claim of it, and works on from there.
    ///
    /// The record after that commit, which is firm if the word asks for it. `None`: nothing is
    /// known to have been committed, and the word has to be sent by itself.
    async fn resume(&self, held: Held, word: &Event) -> Option<Held>;
}

/// Takes the resumer away again when dropped.
#[must_use]
pub struct Resuming {
    engine: Arc<Engine>,
}

impl Drop for Resuming {
    fn drop(&mut self) {
        self.engine.set_resumer(None);
    }
}

impl Engine {
    /// Lets decisions be resumed by `resumer` for as long as the answer is kept.
    pub fn resume_with(self: &Arc<Self>, resumer: Arc<dyn Resume>) -> Resuming {
        self.set_resumer(Some(resumer));
        Resuming { engine: Arc::clone(self) }
    }

    fn set_resumer(&self, resumer: Option<Arc<dyn Resume>>) {
        *self.resumer.write().unwrap_or_else(PoisonError::into_inner) = resumer;
    }

    /// Sends a decision to its run: resumed at once where that is possible.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn decide(
        self: &Arc<Self>,
        id: &RunId,
        held: Held,
        word: Event,
    ) -> Result<Held, StepError> {
        let resumer = self.resumer.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(resumer) = resumer
            && let Some(held) = resumer.resume(held.clone(), &word).await
        {
            return Ok(held);
        }
        self.step(id, Some(held), &[word]).await
    }
}
