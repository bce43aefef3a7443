//! What does the store do when it is a Redis?
//!
//! A record is one STRING: its version (8 bytes, big-endian), the ids of its last operations (8
//! bytes each, newest first, as many as the version says and at most eight), then the caller's
//! bytes. Not a HASH: one with a field longer than 64 bytes costs 180 bytes more, eight ids in
//! hexadecimal 350 more, and reading the first 72 bytes is enough to judge a commit.
//!
//! Commits of one shard travel together: one script call carries those that came in while the call
//! before was under way, so they share a round trip and an fsync, and each gets its own answer. On
//! an idle shard a commit is sent at once. All keys of a call are declared and share a hash slot.
//!
//! Authority: Redis. Its `TIME`, never behind the highest time seen (`hw`), is the only clock, and
//! its scripts are the only place where a commit is judged.
//! Invariant: no commit is sent twice. Once bytes of a commit may have left this process, a missing
//! answer is `Unknown`; the caller decides, for a late yes must never start a tool.
//! If we crash here: what was sent may have happened, and its operation id tells; nothing else.

mod batch;
mod boot;
mod examine;
mod link;
mod pack;
mod queue;
mod reads;
mod record;
mod reply;
mod script;
mod settings;
mod site;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use portcullis_proto::ids::{Epoch, Shard};
use portcullis_proto::topology;

use crate::ports::{
    Commit, CommitError, Committed, Installation, RECORD_BYTES_MAX, Shape, StoreError,
};

pub use record::decode as record_of;
pub use settings::RedisSettings;
pub use site::{OpenError, RedisSite};

use link::{Failure, Link};
use queue::Queues;
use script::{Call, RAISE};

/// The connections of one process to its Redis.
pub(crate) struct Lines {
    /// For soft commits, and for firm ones while there is no replica to wait for.
    commits: Link,
    /// For everything that is read, and for blobs: a long value must not hold up commits.
    reads: Link,
    /// For firm commits when replicas must confirm: `WAIT` blocks the connection it is sent on.
    firm: Vec<FirmLine>,
    replicas: u32,
    wait_ms: u64,
}

struct FirmLine {
    link: Link,
    turn: tokio::sync::Mutex<()>,
}

/// At most this many connections wait for replicas.
const FIRM_LINES_MAX: u16 = 16;

impl Lines {
    fn new(client: &::redis::Client, settings: &RedisSettings) -> Self {
        let link = |extra_ms| {
            let response_ms = settings.response_timeout_ms.saturating_add(extra_ms);
            Link::new(client.clone(), settings.connect_timeout_ms, response_ms)
        };
        let lines = if settings.replicas == 0 { 0 } else { settings.shards.get() };
        Self {
            commits: link(0),
            reads: link(0),
            firm: (0..lines.min(FIRM_LINES_MAX))
                .map(|_| FirmLine { link: link(settings.wait_ms), turn: Default::default() })
                .collect(),
            replicas: settings.replicas,
            wait_ms: settings.wait_ms,
        }
    }

    /// Runs a call whose effect must survive a failover. The second value: did it, in time?
    async fn run_firm(&self, shard: Shard, call: &Call) -> Result<(::redis::Value, bool), Failure> {
        if self.firm.is_empty() {
            return self.commits.run(call).await.map(|answer| (answer, true));
        }
        let line = &self.firm[usize::from(shard.0) % self.firm.len()];
        let _turn = line.turn.lock().await;
        let (answer, confirmed) = line.link.run_and_wait(call, self.replicas, self.wait_ms).await?;
        Ok((answer, u64::from(self.replicas) <= confirmed))
    }

    /// Gives up the connection that a shard's commits go through: it leads to no primary any more.
    async fn forget(&self, shard: Shard, firm: bool) {
        if !firm || self.firm.is_empty() {
            self.commits.forget().await;
        } else {
            self.firm[usize::from(shard.0) % self.firm.len()].link.forget().await;
        }
    }
}

/// A store in Redis, opened by [`RedisSite::adopt`] or [`RedisStore::connect`].
pub struct RedisStore {
    shape: Shape,
    epoch: Vec<u8>,
    lines: Arc<Lines>,
    queues: Queues,
    /// Timer entries that were told to be unreadable; a sweep sees them four times a second.
    unreadable: Mutex<BTreeSet<String>>,
}

/// So many unreadable timer entries are told about, each once.
const UNREADABLE_MAX: usize = 256;

impl RedisStore {
    /// Opens a store without a witness: an empty Redis becomes a new installation.
    ///
    /// # Errors
    /// Redis is unreachable, unfit, or belongs to an installation of another shape.
    pub async fn connect(settings: RedisSettings) -> Result<Self, OpenError> {
        let site = RedisSite::connect(settings).await?;
        let epoch = match site.read_epoch().await? {
            Some(epoch) => epoch,
            None => site.found_epoch(new_epoch()?).await?,
        };
        site.adopt(epoch).await
    }

    fn new(shape: Shape, lines: Lines) -> Self {
        let lines = Arc::new(lines);
        let epoch = shape.epoch.to_string().into_bytes();
        let queues = Queues::start(shape.shards, &epoch, &lines);
        Self { shape, epoch, lines, queues, unreadable: Mutex::default() }
    }

    /// Refuses what no script must see: it would break the rule of one hash slot a call.
    fn check(&self, commit: &Commit) -> Result<(), CommitError> {
        let bytes = commit.bytes.len();
        if RECORD_BYTES_MAX < bytes {
            return Err(CommitError::TooLarge { bytes });
        }
        let shard = commit.key.shard();
        let known = self.known(shard);
        known.map_err(|why| CommitError::Unavailable(why.to_string()))?;
        let set = commit.licences_set.iter().map(|(approval, _)| approval);
        let licences = commit.require.iter().chain(set).chain(&commit.licences_del);
        match licences.into_iter().find(|approval| approval.run().shard() != shard) {
            Some(elsewhere) => Err(CommitError::Unavailable(format!(
                "the licence {elsewhere} is not of the shard {shard} of its commit"
            ))),
            None => Ok(()),
        }
    }

    fn known(&self, shard: Shard) -> Result<(), StoreError> {
        if u16::from(shard.0) < self.shape.shards.get() {
            return Ok(());
        }
        let shards = self.shape.shards.get();
        Err(StoreError::Unavailable(format!("no shard {shard} in a store of {shards}")))
    }

    fn tell_unreadable(&self, shard: Shard, member: String) {
        let mut told = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < UNREADABLE_MAX && !told.contains(&member) {
            tracing::warn!(%shard, member, "skipping a timer entry that this release cannot read");
            told.insert(member);
        }
    }

    pub(crate) async fn commit_one(&self, commit: Commit) -> Result<Committed, CommitError> {
        self.check(&commit)?;
        self.queues.commit(commit).await
    }
}

/// A random epoch for a new installation.
fn new_epoch() -> Result<Epoch, OpenError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|why| OpenError::Randomness(why.to_string()))?;
    Ok(Epoch(bytes))
}

#[async_trait]
impl Installation for RedisStore {
    fn shape(&self) -> Shape {
        self.shape
    }

    async fn policy_epoch(&self) -> Result<u64, StoreError> {
        self.policy_epoch_of(Shard(0)).await
    }

    /// The first shard is read by everybody and so is raised last: until then nothing can be asked
    /// for under the new epoch, and a crash on the way is repaired by raising again.
    async fn raise_policy_epoch(&self) -> Result<u64, StoreError> {
        let shards = self.shape.shards.all();
        let known = shards.map(|shard| self.policy_epoch_of(shard));
        let known = futures_util::future::try_join_all(known).await?;
        let target = known.into_iter().max().map_or(1, |highest| highest.saturating_add(1));
        let mut raised = target;
        for n in (0..self.shape.shards.get()).rev() {
            let shard = Shard(u8::try_from(n).expect("a store has at most 256 shards"));
            raised = self.raise_shard(shard, target).await?;
        }
        Ok(raised)
    }
}

impl RedisStore {
    async fn policy_epoch_of(&self, shard: Shard) -> Result<u64, StoreError> {
        let meta = topology::meta_key(shard);
        let (_, value) = self.read(shard, &meta, "HGET", &[b"pe"]).await?;
        let text = reply::text(value)?;
        let number = text.parse();
        number.map_err(|_| StoreError::Corrupt(format!("the policy epoch `{text}` in {meta}")))
    }

    async fn raise_shard(&self, shard: Shard, target: u64) -> Result<u64, StoreError> {
        let mut call = Call::new(&RAISE, [topology::meta_key(shard)]);
        call.arg(&self.epoch).arg(target.to_string().as_bytes());
        let (answer, durable) = self.lines.run_firm(shard, &call).await?;
        match reply::int(&answer)? {
            -1 => Err(StoreError::Epoch),
            _ if !durable => Err(StoreError::Unavailable(
                "the policy epoch is raised, but too few replicas confirmed it; raise it again"
                    .into(),
            )),
            raised => u64::try_from(raised)
                .map_err(|_| StoreError::Corrupt(format!("a policy epoch of {raised}"))),
        }
    }
}
