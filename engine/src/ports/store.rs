//! The store: one atomic, conditional write of one record, and the few reads around it.

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, Epoch, OpId, ReminderName, RunId, Shard, ShardCount};
pub use portcullis_proto::run::Durability;
use portcullis_proto::time::Ms;
use portcullis_proto::topology;

/// The longest record that a commit takes, in bytes, after compression.
pub const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The longest blob, in bytes, after compression.
pub const BLOB_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A clock this far behind the highest time seen is not steady: nothing may start, in milliseconds.
pub const CLOCK_LAG_MS_MAX: i64 = 5_000;

/// Which record: the unit of atomic change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecordKey {
    Run(RunId),
    Reminder { shard: Shard, name: ReminderName },
}

impl RecordKey {
    /// The record of a reminder; its shard follows from its name.
    #[must_use]
    pub fn reminder(name: ReminderName, shards: ShardCount) -> Self {
        let shard = shards.of(Digest::of_bytes(name.as_str().as_bytes()));
        Self::Reminder { shard, name }
    }

    #[must_use]
    pub fn shard(&self) -> Shard {
        match self {
            Self::Run(run) => run.shard(),
            Self::Reminder { shard, .. } => *shard,
        }
    }

    /// The Redis key of the record.
    #[must_use]
    pub fn store_key(&self) -> String {
        match self {
            Self::Run(run) => topology::run_key(run),
            Self::Reminder { shard, name } => topology::schedule_key(*shard, name.as_str()),
        }
    }

    /// How the record is called in its shard's timer: the run id, or `c:<reminder>`.
    #[must_use]
    pub fn timer_member(&self) -> String {
        match self {
            Self::Run(run) => run.to_string(),
            Self::Reminder { name, .. } => format!("c:{name}"),
        }
    }

    /// Reads a timer member back; `None` when it is of no kind this release knows.
    #[must_use]
    pub fn of_timer_member(shard: Shard, member: &str) -> Option<Self> {
        if let Some(name) = member.strip_prefix("c:") {
            return ReminderName::new(name).ok().map(|name| Self::Reminder { shard, name });
        }
        RunId::new(member).ok().filter(|run| run.shard() == shard).map(Self::Run)
    }
}

/// How often a record was committed. Zero: it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    pub const ABSENT: Self = Self(0);
}

/// A record as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub version: Version,
    /// The operation that made this version.
    pub op: OpId,
    pub bytes: Bytes,
}

/// What a load found, and the store's time of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub stored: Option<Stored>,
    pub now: Ms,
}

/// One entry of a list, such as `run.waiting` by creation or `ask.default` by deadline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexEntry {
    pub index: String,
    pub member: String,
    pub score: Ms,
}

/// One conditional write. Either all of it happens, atomically, or nothing.
#[derive(Clone, Debug)]
pub struct Commit {
    pub key: RecordKey,
    /// The version the change was made from; [`Version::ABSENT`]: the record must not exist.
    pub expected: Version,
    /// The operation that made that version; `None` when it is absent, or whoever asks cannot know.
    /// A store that lost its last commits in a failover counts the same versions again, with
    /// another history: only this tells them apart.
    pub expected_op: Option<OpId>,
    /// Random. Found again in the record's last eight, it tells that a lost reply was a success.
    pub op: OpId,
    /// Refused as [`CommitError::Early`] before this store time.
    pub not_before: Option<Ms>,
    /// Refused as [`CommitError::Late`] at or after this store time.
    pub not_after: Option<Ms>,
    /// Refused as [`CommitError::Clock`] while the clock lags by more than [`CLOCK_LAG_MS_MAX`].
    pub need_steady_clock: bool,
    /// Refused as [`CommitError::Policy`] when the store's policy epoch is another one.
    pub policy_epoch: Option<u64>,
    /// Licences that must live, else [`CommitError::Gone`].
    pub require: Vec<ApprovalId>,
    pub licences_set: Vec<(ApprovalId, Ms)>,
    pub licences_del: Vec<ApprovalId>,
    pub bytes: Bytes,
    /// The record's one timer entry; `None` removes it.
    pub next_deadline: Option<Ms>,
    /// `Some`: the record is deleted that many milliseconds from now. `None`: it stays.
    pub retain_ms: Option<i64>,
    pub index_set: Vec<IndexEntry>,
    /// `(index, member)` pairs to remove.
    pub index_del: Vec<(String, String)>,
    /// Lines (JSON) for the shard's feed, in order.
    pub feed: Vec<String>,
    pub durability: Durability,
}

/// A commit that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub version: Version,
    /// The store's time of the commit.
    pub now: Ms,
}

/// Why a commit did not happen, or may not be acted on. Only `Unknown` leaves that open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    #[error("another commit came first")]
    Conflict { now: Ms },
    #[error("too early: the store's time is {now}")]
    Early { now: Ms },
    #[error("too late: the store's time is {now}")]
    Late { now: Ms },
    #[error("the licence of {approval} is gone")]
    Gone { approval: ApprovalId, now: Ms },
    #[error("the store's clock lags {lag_ms} ms behind the highest time seen")]
    Clock { lag_ms: i64 },
    #[error("the store was emptied or swapped: its epoch is not the one this process started with")]
    Epoch,
    #[error("the policy epoch changed to {current}")]
    Policy { current: u64 },
    /// Written, but not (yet) where it must be to survive a failover. Do not act on it.
    #[error("committed, but too few replicas confirmed it in time")]
    NotDurable,
    #[error("the record is {bytes} bytes long, at most {RECORD_BYTES_MAX} are kept")]
    TooLarge { bytes: usize },
    /// Nothing was written: the store said so, or was never asked.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The reply was lost: it may have happened. Load, or commit the same operation again.
    #[error("the outcome of the commit is unknown: {0}")]
    Unknown(String),
}

/// Why a read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    #[error("the store was emptied or swapped: its epoch is not the one this process started with")]
    Epoch,
    #[error("the store holds something unreadable: {0}")]
    Corrupt(String),
    #[error("{what} is {bytes} bytes long, at most {max} are kept")]
    TooLarge { what: &'static str, bytes: usize, max: usize },
}

/// One entry of a shard's timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub key: RecordKey,
    pub at: Ms,
}

/// A page of due entries, and the store's time of the read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuePage {
    pub entries: Vec<Due>,
    pub now: Ms,
}

/// Which end of a list first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    LowestFirst,
    HighestFirst,
}

/// Records under versions, their timers and lists.
#[async_trait]
pub trait Store: Send + Sync {
    async fn load(&self, key: &RecordKey) -> Result<Loaded, StoreError>;

    /// Writes all of `commit`, or nothing. The same operation sent again answers as the first did.
    /// Concurrent calls share round trips and fsyncs; each gets its own answer.
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError>;

    /// Timer entries at or before `until`, earliest first, after skipping `offset` of them.
    async fn due(
        &self,
        shard: Shard,
        until: Ms,
        offset: usize,
        limit: usize,
    ) -> Result<DuePage, StoreError>;

    /// Entries of one list of one shard whose score lies in `low..=high`.
    async fn list(
        &self,
        shard: Shard,
        index: &str,
        range: std::ops::RangeInclusive<Ms>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError>;

    /// How many entries a list has, over all shards.
    async fn count(&self, index: &str) -> Result<u64, StoreError>;

    async fn now(&self) -> Result<Ms, StoreError>;
}

/// A place in a shard's feed; opaque, ordered within its shard only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedCursor(pub String);

/// One line of the feed, as it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    pub cursor: FeedCursor,
    pub json: String,
}

/// What happened, in commit order per shard.
#[async_trait]
pub trait Feed: Send + Sync {
    /// The place behind the newest entry.
    async fn end(&self, shard: Shard) -> Result<FeedCursor, StoreError>;

    /// Up to `limit` entries after `cursor`, oldest first.
    async fn after(
        &self,
        shard: Shard,
        cursor: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError>;
}

/// Values too long for a record, by content. A blob outlives every run that may refer to it.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Keeps `bytes` for at least `keep_ms` from now; putting it again prolongs that.
    async fn put(&self, shard: Shard, bytes: Bytes, keep_ms: i64) -> Result<Digest, StoreError>;

    async fn get(&self, shard: Shard, digest: Digest) -> Result<Option<Bytes>, StoreError>;
}

/// One store's standing facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub shards: ShardCount,
    pub epoch: Epoch,
}

/// The store as an installation: what it is, and the one switch that voids every approval.
#[async_trait]
pub trait Installation: Send + Sync {
    fn shape(&self) -> Shape;

    async fn policy_epoch(&self) -> Result<u64, StoreError>;

    /// Adds one on every shard. Every approval asked for under an older epoch is void from then on.
    async fn raise_policy_epoch(&self) -> Result<u64, StoreError>;
}

/// Everything a home's store is.
pub trait Storage: Store + Feed + Blobs + Installation {}

impl<T: Store + Feed + Blobs + Installation> Storage for T {}
