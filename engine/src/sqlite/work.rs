//! What waits for its turn to write, and what is it told?
//!
//! Authority: the group that it becomes part of.
//! Invariant: exactly one answer a piece of work, and only once its group is on disk or taken back.

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::clock::Clock;
use crate::ports::{CommitError, StoreError};

/// Why nothing of a group may be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing was written.
    Unavailable(String),
    /// It may have been written.
    Unknown(String),
    /// The file is no longer the one this process opened; nothing was written.
    Swapped,
}

impl From<Failure> for CommitError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(why) => Self::Unavailable(why),
            Failure::Unknown(why) => Self::Unknown(why),
            Failure::Swapped => Self::Epoch,
        }
    }
}

impl From<Failure> for StoreError {
    /// What answers with this can be done again without harm, so "unknown" needs no own word.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(why) | Failure::Unknown(why) => Self::Unavailable(why),
            Failure::Swapped => Self::Epoch,
        }
    }
}

/// Something that waits for its turn to write.
pub(super) trait Work: Send {
    /// How much it is about to write, in bytes.
    fn bytes(&self) -> usize;

    /// Checks, then writes, then remembers its answer. An error takes the whole group back.
    fn perform(&mut self, turn: &mut Turn<'_>) -> rusqlite::Result<()>;

    /// Tells the caller: the remembered answer, or why there is none.
    fn settle(self: Box<Self>, outcome: &Result<(), Failure>);
}

/// What one group works with.
pub(super) struct Turn<'a> {
    pub(super) connection: &'a Connection,
    pub(super) clock: &'a Clock,
    pub(super) policy_epoch: u64,
    /// Set by who writes; a group that only refused costs no fsync.
    pub(super) wrote: bool,
}

/// One caller's work: what to do, what came of it, and whom to tell.
pub(super) struct Task<T, E, F> {
    bytes: usize,
    act: Option<F>,
    found: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> Task<T, E, F>
where
    T: Send + 'static,
    E: From<Failure> + Send + 'static,
    F: FnOnce(&mut Turn<'_>) -> rusqlite::Result<Result<T, E>> + Send + 'static,
{
    /// Work for a group, and where its answer will come. The answer stays away only when the
    /// writer dies.
    pub(super) fn asked(bytes: usize, act: F) -> (Box<dyn Work>, oneshot::Receiver<Result<T, E>>) {
        let (answer, answered) = oneshot::channel();
        (Box::new(Self { bytes, act: Some(act), found: None, answer }), answered)
    }
}

impl<T, E, F> Work for Task<T, E, F>
where
    T: Send,
    E: From<Failure> + Send,
    F: FnOnce(&mut Turn<'_>) -> rusqlite::Result<Result<T, E>> + Send,
{
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn perform(&mut self, turn: &mut Turn<'_>) -> rusqlite::Result<()> {
        if let Some(act) = self.act.take() {
            self.found = Some(act(turn)?);
        }
        Ok(())
    }

    fn settle(self: Box<Self>, outcome: &Result<(), Failure>) {
        let answer = match (outcome, self.found) {
            (Ok(()), Some(found)) => found,
            (Ok(()), None) => Err(Failure::Unavailable("it was never tried".to_owned()).into()),
            (Err(failure), _) => Err(failure.clone().into()),
        };
        // A caller that went away learns nothing, and loses nothing: the operation id tells.
        drop(self.answer.send(answer));
    }
}
