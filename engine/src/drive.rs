//! The one loop that changes a run: load → apply → commit → perform.
//!
//! Authority: the store. A change counts once its commit is answered, and not before.
//! Invariant: nobody else commits a run. What others can see (a request, a child, a wake) is done
//! only after the commit that ordered it.
//! If we crash between commit and perform: the record still asks for what was not done, and its
//! timer repeats it.

use std::sync::Arc;

use portcullis_proto::ids::{ApprovalId, OpId, RunId};
use portcullis_proto::journal::Entry;
use portcullis_proto::run::{Change, Durability, Effect, Event, Reject, Run, fold};
use portcullis_proto::time::Ms;

use crate::meters::Meters;
use crate::ports::{
    Bus, CommitError, Committed, Order, RecordKey, Storage, StoreError, Stored, Version,
};
use crate::record::{Record, RecordError};
use crate::resume::Resume;
use crate::surroundings::{Draw as _, Surroundings};

/// How often an event is applied again after another commit came first.
pub const CONFLICTS_MAX: u32 = 8;
/// How many claims a store can hold that one process wrote: as many as it can have slots.
const CLAIMS_MAX: usize = 4_096;
/// The longest pause before applying it again, in milliseconds.
const CONFLICT_PAUSE_MS_MAX: u64 = 20;

/// A record as it was last seen, with the version to commit against.
#[derive(Clone, Debug)]
pub struct Held {
    pub record: Arc<Record>,
    pub version: Version,
    /// The operation that made that version.
    pub op: OpId,
    /// The store's time when it was read or committed, and this process's then.
    pub now: Ms,
    boot_ms: i64,
}

impl Held {
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.record.run
    }
}

/// Why an event had no effect, or none that may be acted on.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The rules say no. The run is shown as it was when they did.
    #[error("{reject}")]
    Rejected { reject: Reject, place: usize, held: Option<Box<Held>> },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Commit(CommitError),
    #[error("{CONFLICTS_MAX} other commits came first")]
    Contended,
}

impl StepError {
    #[must_use]
    pub fn reject(&self) -> Option<&Reject> {
        match self {
            Self::Rejected { reject, .. } => Some(reject),
            Self::Store(_) | Self::Record(_) | Self::Commit(_) | Self::Contended => None,
        }
    }

    /// Whether the store could not be asked, so that trying later may help.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Unavailable(_))
                | Self::Commit(
                    CommitError::Unavailable(_) | CommitError::Unknown(_) | CommitError::NotDurable
                )
        )
    }
}

/// Drives runs over one home's store and bus.
pub struct Engine {
    pub store: Arc<dyn Storage>,
    pub bus: Arc<dyn Bus>,
    pub surroundings: Arc<dyn Surroundings>,
    pub meters: Meters,
    pub(crate) tasks: tokio_util::task::TaskTracker,
    /// One for each change whose effects are being performed.
    pub(crate) performing: Arc<tokio::sync::Semaphore>,
    pub(crate) resumer: std::sync::RwLock<Option<Arc<dyn Resume>>>,
}

impl Engine {
    #[must_use]
    pub fn new(
        store: Arc<dyn Storage>,
        bus: Arc<dyn Bus>,
        surroundings: Arc<dyn Surroundings>,
    ) -> Arc<Self> {
        let tasks = tokio_util::task::TaskTracker::new();
        let performing = Arc::new(tokio::sync::Semaphore::new(crate::effects::PERFORMING_MAX));
        let meters = Meters::default();
        let resumer = std::sync::RwLock::default();
        Arc::new(Self { store, bus, surroundings, meters, tasks, performing, resumer })
    }

    /// The id that a job's run has in this store.
    #[must_use]
    pub fn run_id(&self, key: &portcullis_proto::ids::JobKey) -> RunId {
        RunId::of(key, self.store.shape().shards)
    }

    /// The store's time by this process's clock, from when a record was last seen. A guess: the
    /// commit decides by the real one.
    #[must_use]
    pub fn now_since(&self, held: &Held) -> Ms {
        held.now.plus((self.surroundings.boot_ms() - held.boot_ms).max(0))
    }

    /// Reads a run. The record is as it was committed; see `effective` for what time has decided.
    ///
    /// # Errors
    /// When the store cannot be read, or holds no run under the id.
    pub async fn load(&self, id: &RunId) -> Result<(Option<Held>, Ms), StepError> {
        let loaded = self.store.load(&RecordKey::Run(id.clone())).await?;
        let held = match loaded.stored {
            Some(Stored { version, op, bytes }) => {
                Some(self.held(Record::decode(&bytes)?, version, op, loaded.now))
            }
            None => None,
        };
        Ok((held, loaded.now))
    }

    pub(crate) fn held(&self, record: Record, version: Version, op: OpId, now: Ms) -> Held {
        let record = Arc::new(record);
        Held { record, version, op, now, boot_ms: self.surroundings.boot_ms() }
    }

    /// Applies events to a run as one commit, from a fresh read.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn send(self: &Arc<Self>, id: &RunId, events: &[Event]) -> Result<Held, StepError> {
        self.step(id, None, events).await
    }

    /// Applies events to a run as one commit, from what the caller holds if it is still current.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn step(
        self: &Arc<Self>,
        id: &RunId,
        held: Option<Held>,
        events: &[Event],
    ) -> Result<Held, StepError> {
        let mut known = held;
        for _ in 0..=CONFLICTS_MAX {
            let (before, now) = match known.take() {
                Some(held) => {
                    let now = self.now_since(&held);
                    (Some(held), now)
                }
                None => self.load(id).await?,
            };
            let change = match fold(before.as_ref().map(Held::run), events, now) {
                Ok(change) => change,
                Err((place, reject)) => {
                    // As of now: time may be what they say no for.
                    let boot_ms = self.surroundings.boot_ms();
                    let held = before.map(|held| Box::new(Held { now, boot_ms, ..held }));
                    return Err(StepError::Rejected { reject, place, held });
                }
            };
            match self.commit(id, before.as_ref(), change, events).await {
                Ok(Done { held, journal, effects }) => {
                    self.meters.happened(&journal);
                    crate::narrate::narrate(id, &journal);
                    self.perform(id, &held, effects);
                    return Ok(held);
                }
                Err(StepError::Commit(why)) => self.answer(id, why).await?,
                Err(other) => return Err(other),
            }
        }
        Err(StepError::Contended)
    }

    /// Writes a run again as it stands, firm: what was read before this returns survives a
    /// failover, also where the commit that wrote it was answered «not durable».
    ///
    /// # Errors
    /// When there is no such run, or the store cannot say that it is durable.
    pub async fn confirm(self: &Arc<Self>, id: &RunId) -> Result<Held, StepError> {
        for _ in 0..=CONFLICTS_MAX {
            let (before, _) = self.load(id).await?;
            let Some(before) = before else {
                let (reject, place, held) = (Reject::Unknown, 0, None);
                return Err(StepError::Rejected { reject, place, held });
            };
            let change = Change::none(before.run().clone(), Durability::Firm);
            match self.commit(id, Some(&before), change, &[]).await {
                Ok(done) => return Ok(done.held),
                Err(StepError::Commit(why)) => self.answer(id, why).await?,
                Err(other) => return Err(other),
            }
        }
        Err(StepError::Contended)
    }

    /// What a refused commit asks for before the events are applied again, if that can help.
    async fn answer(self: &Arc<Self>, id: &RunId, why: CommitError) -> Result<(), StepError> {
        match why {
            CommitError::Conflict { .. } => {
                tokio::time::sleep(self.surroundings.jitter(CONFLICT_PAUSE_MS_MAX)).await;
                Ok(())
            }
            // Time moved between the read and the commit: the next read settles it.
            CommitError::Late { .. } => Ok(()),
            CommitError::Early { now } => Err(StepError::Commit(CommitError::Early { now })),
            CommitError::Gone { approval, .. } => {
                self.void(id, Event::LicenceGone { approval }).await
            }
            other @ (CommitError::Clock { .. }
            | CommitError::Epoch
            | CommitError::Policy { .. }
            | CommitError::NotDurable
            | CommitError::TooLarge { .. }
            | CommitError::Unavailable(_)
            | CommitError::Unknown(_)) => Err(StepError::Commit(other)),
        }
    }

    /// Records that a request is void; the event that found out is applied again after that.
    async fn void(self: &Arc<Self>, id: &RunId, event: Event) -> Result<(), StepError> {
        match Box::pin(self.send(id, std::slice::from_ref(&event))).await {
            Ok(_) | Err(StepError::Rejected { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Voids an approval whose policy epoch has passed.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn policy_changed(
        self: &Arc<Self>,
        id: &RunId,
        approval: ApprovalId,
    ) -> Result<(), StepError> {
        self.void(id, Event::PolicyChanged { approval }).await
    }

    /// Takes every claim from whoever held it, without waiting for its lease. For a store that
    /// only one process may have open, by that process, before it works itself: how many there
    /// were.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn workers_gone(self: &Arc<Self>) -> Result<usize, StepError> {
        let mut voided = 0;
        for shard in self.store.shape().shards.all() {
            let all = Ms(0)..=Ms(i64::MAX);
            let list = self.store.list(shard, "run.running", all, Order::LowestFirst, CLAIMS_MAX);
            for run in list.await?.into_iter().filter_map(|entry| RunId::new(entry.member).ok()) {
                match self.send(&run, &[Event::WorkersGone]).await {
                    Ok(_) => voided += 1,
                    // Its time was over anyway, and that was said instead.
                    Err(StepError::Rejected { .. }) => {}
                    // One that cannot be read is the sweep's to complain about.
                    Err(StepError::Record(_)) => {}
                    Err(why) => return Err(why),
                }
            }
        }
        Ok(voided)
    }

    async fn commit(
        &self,
        id: &RunId,
        before: Option<&Held>,
        mut change: Change,
        events: &[Event],
    ) -> Result<Done, StepError> {
        let (journal, effects) = (change.journal.clone(), std::mem::take(&mut change.effects));
        let firm = change.is_firm();
        let op = self.surroundings.op_id();
        let (record, commit) = crate::commit::build(id, before, change, op)?;
        let began = self.surroundings.boot_ms();
        let answer = match self.store.commit(commit.clone()).await {
            // The same operation again is harmless and tells what became of the first.
            Err(CommitError::Unknown(_)) if !starts_something(events) => {
                self.store.commit(commit).await
            }
            answer => answer,
        };
        let took = self.surroundings.boot_ms() - began;
        self.meters.committed(&answer, firm, took);
        let Committed { version, now } = answer.map_err(StepError::Commit)?;
        Ok(Done { held: self.held(record, version, op, now), journal, effects })
    }
}

/// A commit that was answered, and what is now to be told and done.
struct Done {
    held: Held,
    journal: Vec<Entry>,
    effects: Vec<Effect>,
}

/// A start whose reply was lost is not authorised, whatever the record says.
fn starts_something(events: &[Event]) -> bool {
    events.iter().any(|e| matches!(e, Event::StartTool { .. } | Event::SpawnChild { .. }))
}
