//! How does a reminder's change become durable: load → apply → commit, again after a lost race.
//!
//! Invariant: soft commits only. What a failover takes back comes again under the same job key.

use portcullis_engine::ports::{
    Commit, CommitError, Durability, IndexEntry, RecordKey, StoreError, Version,
};
use portcullis_engine::surroundings::Draw as _;
use portcullis_proto::ids::{OpId, ReminderName};
use portcullis_proto::run::RETAIN_MS;
use portcullis_proto::time::Ms;

use super::INDEX;
use super::state::{self, Change, Event, Reject, Schedule};
use crate::Scheduler;
use crate::settings::Reminder;

/// How often a change is made again after another commit came first.
const CONFLICTS_MAX: u32 = 8;
/// The longest pause before that, in milliseconds.
const CONFLICT_PAUSE_MS_MAX: u64 = 20;

/// Why a reminder did not move.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    #[error(transparent)]
    Rejected(#[from] Reject),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("{CONFLICTS_MAX} other commits came first")]
    Contended,
    #[error("its run could not be started: {0}")]
    Start(String),
}

/// A reminder as it was read.
pub(super) struct Kept {
    pub(super) schedule: Option<Schedule>,
    version: Version,
    /// The operation that made that version.
    op: Option<OpId>,
    pub(super) now: Ms,
}

/// A change that is stored.
pub(super) struct Moved {
    pub(super) change: Change,
}

impl Scheduler {
    fn reminder_key(&self, name: &ReminderName) -> RecordKey {
        RecordKey::reminder(name.clone(), self.engine.store.shape().shards)
    }

    pub(super) async fn load_reminder(&self, name: &ReminderName) -> Result<Kept, StoreError> {
        let loaded = self.engine.store.load(&self.reminder_key(name)).await?;
        let Some(stored) = loaded.stored else {
            let (version, now) = (Version::ABSENT, loaded.now);
            return Ok(Kept { schedule: None, version, op: None, now });
        };
        let schedule = Schedule::decode(&stored.bytes)
            .map_err(|why| StoreError::Corrupt(format!("reminder {name}: {why}")))?;
        let (version, op, now) = (stored.version, Some(stored.op), loaded.now);
        Ok(Kept { schedule: Some(schedule), version, op, now })
    }

    /// Applies one event and stores what comes of it.
    pub(super) async fn move_reminder(
        &self,
        name: &ReminderName,
        reminder: &Reminder,
        event: &Event,
    ) -> Result<Moved, KeepError> {
        for _ in 0..=CONFLICTS_MAX {
            let kept = self.load_reminder(name).await?;
            let change = state::apply(kept.schedule.as_ref(), event, reminder.terms(), kept.now)?;
            // A hold must not be taken, or used, by whoever was asleep since the read.
            let not_after = match event {
                Event::Fired { hold_until, .. } => Some(*hold_until),
                Event::Due => change.next.hold_until,
                Event::Synced => None,
            };
            match self.commit_reminder(name, &kept, &change.next, not_after).await {
                Ok(()) => return Ok(Moved { change }),
                Err(CommitError::Conflict { .. } | CommitError::Late { .. }) => {
                    let pause = self.engine.surroundings.jitter(CONFLICT_PAUSE_MS_MAX);
                    tokio::time::sleep(pause).await;
                }
                Err(other) => return Err(other.into()),
            }
        }
        Err(KeepError::Contended)
    }

    /// Disarms a reminder and takes it off the list; its record expires like a run's.
    pub(super) async fn retire_reminder(&self, name: &ReminderName) -> Result<(), KeepError> {
        for _ in 0..=CONFLICTS_MAX {
            let kept = self.load_reminder(name).await?;
            let Some(schedule) = &kept.schedule else { return Ok(()) };
            let mut commit = self.reminder_commit(name, &kept, &schedule.removed());
            commit.retain_ms = Some(RETAIN_MS);
            commit.index_set = Vec::new();
            commit.index_del = vec![(INDEX.to_owned(), name.to_string())];
            match self.engine.store.commit(commit).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict { .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(KeepError::Contended)
    }

    async fn commit_reminder(
        &self,
        name: &ReminderName,
        kept: &Kept,
        next: &Schedule,
        not_after: Option<Ms>,
    ) -> Result<(), CommitError> {
        let mut commit = self.reminder_commit(name, kept, next);
        commit.not_after = not_after;
        match self.engine.store.commit(commit.clone()).await {
            // The same operation again is harmless and tells what became of the first.
            Err(CommitError::Unknown(_)) => self.engine.store.commit(commit).await.map(|_| ()),
            answer => answer.map(|_| ()),
        }
    }

    fn reminder_commit(&self, name: &ReminderName, kept: &Kept, next: &Schedule) -> Commit {
        // A spent reminder stays on the list, behind all others.
        let score = next.next_deadline().unwrap_or(Ms(i64::MAX >> 11));
        Commit {
            key: self.reminder_key(name),
            expected: kept.version,
            expected_op: kept.op,
            op: self.engine.surroundings.op_id(),
            not_before: None,
            not_after: None,
            need_steady_clock: false,
            policy_epoch: None,
            require: Vec::new(),
            licences_set: Vec::new(),
            licences_del: Vec::new(),
            bytes: next.encode().into(),
            next_deadline: next.next_deadline(),
            retain_ms: None,
            index_set: vec![IndexEntry {
                index: INDEX.to_owned(),
                member: name.to_string(),
                score,
            }],
            index_del: Vec::new(),
            feed: Vec::new(),
            durability: Durability::Soft,
        }
    }
}
