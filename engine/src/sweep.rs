//! Turns overdue deadlines into events, to the millisecond. Every process does it; there is no
//! leader.
//!
//! Authority: the store's timer and the store's clock. This process only guesses when to ask.
//! Invariant: an entry is looked at, never taken away: a crash between the look and the commit
//! loses nothing, and a sweeper that comes second finds nothing due.
//! If we crash here: the other processes' sweepers, or the next process to start, do the same.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use portcullis_proto::ids::{RunId, Shard};
use portcullis_proto::run::{Event, Reject};
use portcullis_proto::time::Ms;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::drive::{Engine, StepError};
use crate::ports::{CommitError, Due, RecordKey};
use crate::surroundings::Draw as _;

/// How far ahead entries are read into local timers, in milliseconds.
const LOOK_AHEAD_MS: i64 = 1_000;
/// How often every shard is read, in milliseconds.
const LOOK_MS: u64 = 250;
/// How many entries one read returns.
const PAGE: usize = 256;
/// How many pages of one shard are read in one look.
const PAGES_MAX: usize = 16;
/// How many ticks are under way at once.
const TICKS_MAX: usize = 256;
/// An entry that cannot be worked off is left alone this long, doubled each time, in milliseconds.
const SKIP_MS_FIRST: i64 = 1_000;
const SKIP_MS_MAX: i64 = 60_000;
/// After so many failures in a row an operator is told, and a damaged run is ended.
const FAILURES_LOUD: u32 = 10;
/// So many failing records are remembered.
const FAILING_MAX: usize = 16_384;

/// What to do about records of other kinds than runs.
#[async_trait]
pub trait OnDue: Send + Sync {
    /// Works off a due record. `false`: it could not be, and is tried again later.
    async fn due(&self, key: &RecordKey) -> bool;
}

/// Ignores reminders: for processes that fire none.
#[derive(Clone, Copy, Debug)]
pub struct RunsOnly;

#[async_trait]
impl OnDue for RunsOnly {
    async fn due(&self, _: &RecordKey) -> bool {
        true
    }
}

#[derive(Clone, Copy)]
struct Failing {
    times: u32,
    until_boot_ms: i64,
}

/// One process's sweeper.
pub struct Sweeper {
    engine: Arc<Engine>,
    others: Arc<dyn OnDue>,
    permits: Arc<Semaphore>,
    /// Entries that a local timer or tick already stands for, by the deadline it is for.
    underway: Mutex<HashMap<RecordKey, Ms>>,
    failing: Mutex<HashMap<RecordKey, Failing>>,
}

impl Sweeper {
    #[must_use]
    pub fn new(engine: Arc<Engine>, others: Arc<dyn OnDue>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            others,
            permits: Arc::new(Semaphore::new(TICKS_MAX)),
            underway: Mutex::new(HashMap::new()),
            failing: Mutex::new(HashMap::new()),
        })
    }

    /// Sweeps until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let shards: Vec<Shard> = self.engine.store.shape().shards.all().collect();
        while !stop.is_cancelled() {
            let looks = shards.iter().map(|shard| self.look(*shard, &stop));
            for looked in futures_util::future::join_all(looks).await {
                if let Err(why) = looked {
                    warn!(%why, "sweep could not read a timer");
                    self.engine.meters.sweep_failed();
                }
            }
            let pause = Duration::from_millis(LOOK_MS) + self.engine.surroundings.jitter(10);
            tokio::select! {
                // In this order every time: a run of the simulation must be repeatable.
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Reads what is due soon on a shard, and sets a timer for each.
    async fn look(
        self: &Arc<Self>,
        shard: Shard,
        stop: &CancellationToken,
    ) -> Result<(), StepError> {
        let mut until = None;
        let mut offset = 0;
        for _ in 0..PAGES_MAX {
            let guess = match until {
                Some(at) => at,
                None => self.engine.store.now().await?.plus(LOOK_AHEAD_MS),
            };
            until = Some(guess);
            let page = self.engine.store.due(shard, guess, offset, PAGE).await?;
            let (count, boot_ms) = (page.entries.len(), self.engine.surroundings.boot_ms());
            for entry in page.entries {
                self.schedule(entry, page.now, boot_ms, stop);
            }
            if count < PAGE {
                break;
            }
            // What is under way stays at the front until it is committed: look behind it.
            offset += count;
        }
        Ok(())
    }

    fn schedule(self: &Arc<Self>, due: Due, now: Ms, boot_ms: i64, stop: &CancellationToken) {
        let skipped = self
            .failing
            .lock()
            .expect("no panic while held")
            .get(&due.key)
            .is_some_and(|failing| boot_ms < failing.until_boot_ms);
        let known = {
            let mut underway = self.underway.lock().expect("no panic while held");
            !skipped && underway.insert(due.key.clone(), due.at) == Some(due.at)
        };
        if skipped || known {
            return;
        }
        let wait = Duration::from_millis(u64::try_from(due.at.since(now)).unwrap_or(0));
        let (underway, stop) = (Underway(Arc::clone(self), due), stop.clone());
        self.engine.tasks.spawn(async move {
            let Underway(sweeper, due) = &underway;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => sweeper.work_off(due).await,
            }
        });
    }

    async fn work_off(self: &Arc<Self>, due: &Due) {
        let Ok(_permit) = self.permits.acquire().await else { return };
        // A panic is a failure of this one record, not the end of its timer.
        let worked = AssertUnwindSafe(self.work_on(due)).catch_unwind().await;
        let worked = worked.unwrap_or_else(|_| Worked::Never("its rules panicked".to_owned()));
        let times = self.note(&due.key, &worked);
        match (&due.key, worked) {
            (RecordKey::Run(id), Worked::Never(why)) if times.is_multiple_of(FAILURES_LOUD) => {
                self.bury(id, &why).await;
            }
            (_, Worked::Later | Worked::Never(_)) if times.is_multiple_of(FAILURES_LOUD) => {
                error!(record = due.key.store_key(), times, "W021 a deadline cannot be worked off");
            }
            (_, Worked::Done | Worked::Later | Worked::Never(_)) => {}
        }
    }

    async fn work_on(self: &Arc<Self>, due: &Due) -> Worked {
        match &due.key {
            RecordKey::Run(_) => self.tick(due).await,
            RecordKey::Reminder { .. } if self.others.due(&due.key).await => Worked::Done,
            RecordKey::Reminder { .. } => Worked::Later,
        }
    }

    /// How often the record has failed in a row; 0 if it did not. More of them than
    /// [`FAILING_MAX`] are not remembered, and so are tried at every look.
    fn note(&self, key: &RecordKey, worked: &Worked) -> u32 {
        let mut failing = self.failing.lock().expect("no panic while held");
        if matches!(worked, Worked::Done) {
            failing.remove(key);
            return 0;
        }
        let times = failing.get(key).map_or(1, |f| f.times.saturating_add(1));
        let wait = SKIP_MS_FIRST.saturating_mul(1 << times.min(8)).min(SKIP_MS_MAX);
        let until_boot_ms = self.engine.surroundings.boot_ms().saturating_add(wait);
        if failing.len() < FAILING_MAX || failing.contains_key(key) {
            failing.insert(key.clone(), Failing { times, until_boot_ms });
        }
        self.engine.meters.sweep_failed();
        times
    }

    async fn bury(&self, id: &RunId, why: &str) {
        match self.engine.bury(id, why).await {
            Ok(true) => error!(run.id = %id, why, "W023 a run was ended: its record is damaged"),
            Ok(false) => error!(run.id = %id, why, "W021 a deadline cannot be worked off"),
            Err(fault) => error!(run.id = %id, why, %fault, "W021 nor can the run be ended"),
        }
    }

    async fn tick(self: &Arc<Self>, due: &Due) -> Worked {
        let RecordKey::Run(id) = &due.key else { return Worked::Done };
        match self.engine.send(id, &[Event::Tick]).await {
            Ok(_) => Worked::Done,
            // Another sweeper was faster, or this one a millisecond too early: the next look
            // finds the entry again if it still stands.
            Err(StepError::Rejected {
                reject: Reject::NothingDue | Reject::Terminal | Reject::Unknown,
                ..
            }) => Worked::Done,
            Err(why) => {
                warn!(run.id = %id, %why, "deadline not worked off");
                match why {
                    StepError::Record(_) | StepError::Commit(CommitError::TooLarge { .. }) => {
                        Worked::Never(why.to_string())
                    }
                    StepError::Rejected { .. }
                    | StepError::Store(_)
                    | StepError::Commit(_)
                    | StepError::Contended => Worked::Later,
                }
            }
        }
    }
}

/// What came of one due record.
enum Worked {
    Done,
    /// It may work later.
    Later,
    /// It will not, however long one waits, and why.
    Never(String),
}

/// One entry that a local timer stands for, until dropped.
struct Underway(Arc<Sweeper>, Due);

impl Drop for Underway {
    fn drop(&mut self) {
        let Self(sweeper, due) = self;
        let mut underway = sweeper.underway.lock().expect("no panic while held");
        if underway.get(&due.key) == Some(&due.at) {
            underway.remove(&due.key);
        }
    }
}
