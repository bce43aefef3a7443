//! Records in a map under one lock, checked in the order of the commit script.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_engine::ports::{
    Blobs, Commit, CommitError, Committed, Due, DuePage, Durability, Feed, FeedCursor, FeedEntry,
    IndexEntry, Installation, Loaded, Order, RecordKey, Shape, Store, StoreError, Stored, Version,
};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, Epoch, OpId, Shard, ShardCount};
use portcullis_proto::time::Ms;

/// What is wrong with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It cannot be reached.
    Down,
    /// Written, but firm commits are not confirmed by the replicas.
    NotDurable,
    /// Written, and the reply is lost.
    RepliesLost,
    /// Its clock lags behind what it has seen.
    ClockLags,
}

#[derive(Default)]
struct Kept {
    records: HashMap<RecordKey, (Version, Bytes, Vec<OpId>)>,
    timers: HashMap<RecordKey, Ms>,
    lists: BTreeMap<(String, Shard), BTreeMap<(Ms, String), ()>>,
    licences: HashMap<ApprovalId, Ms>,
    feeds: HashMap<Shard, Vec<String>>,
    blobs: HashMap<Digest, Bytes>,
    now: i64,
    trouble: Option<Trouble>,
    commits: u64,
}

pub(crate) struct FakeStore {
    kept: Mutex<Kept>,
}

impl FakeStore {
    pub(crate) fn at(now: i64) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::new(Kept { now, ..Kept::default() }) })
    }

    pub(crate) fn advance(&self, ms: i64) {
        self.kept().now += ms;
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.kept().now
    }

    pub(crate) fn trouble(&self, trouble: Option<Trouble>) {
        self.kept().trouble = trouble;
    }

    /// How many commits were written.
    pub(crate) fn commits(&self) -> u64 {
        self.kept().commits
    }

    /// Deletes a licence, as an operator may.
    pub(crate) fn revoke(&self, approval: &ApprovalId) {
        self.kept().licences.remove(approval);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no panic while held")
    }

    fn reachable(&self) -> Result<MutexGuard<'_, Kept>, StoreError> {
        let kept = self.kept();
        if kept.trouble == Some(Trouble::Down) {
            return Err(StoreError::Unavailable("switched off".into()));
        }
        Ok(kept)
    }
}

fn refuse(kept: &Kept, commit: &Commit) -> Option<CommitError> {
    let now = Ms(kept.now);
    let version = kept.records.get(&commit.key).map_or(Version::ABSENT, |r| r.0);
    if version != commit.expected {
        return Some(CommitError::Conflict { now });
    }
    if commit.need_steady_clock && kept.trouble == Some(Trouble::ClockLags) {
        return Some(CommitError::Clock { lag_ms: 6_000 });
    }
    if commit.not_before.is_some_and(|at| now < at) {
        return Some(CommitError::Early { now });
    }
    if commit.not_after.is_some_and(|at| at <= now) {
        return Some(CommitError::Late { now });
    }
    let dead = |id: &&ApprovalId| kept.licences.get(*id).is_none_or(|until| *until <= now);
    let gone = commit.require.iter().find(dead)?;
    Some(CommitError::Gone { approval: gone.clone(), now })
}

fn write(kept: &mut Kept, commit: Commit) -> Committed {
    let shard = commit.key.shard();
    let version = Version(commit.expected.0 + 1);
    let nothing = || (Version::ABSENT, Bytes::new(), Vec::new());
    let record = kept.records.entry(commit.key.clone()).or_insert_with(nothing);
    (record.0, record.1) = (version, commit.bytes);
    record.2.push(commit.op);
    match commit.next_deadline {
        Some(at) => kept.timers.insert(commit.key, at),
        None => kept.timers.remove(&commit.key),
    };
    for (index, member) in commit.index_del {
        let list = kept.lists.entry((index, shard)).or_default();
        list.retain(|(_, name), ()| *name != member);
    }
    for entry in commit.index_set {
        let list = kept.lists.entry((entry.index, shard)).or_default();
        list.retain(|(_, name), ()| *name != entry.member);
        list.insert((entry.score, entry.member), ());
    }
    for id in commit.licences_del {
        kept.licences.remove(&id);
    }
    kept.licences.extend(commit.licences_set);
    kept.feeds.entry(shard).or_default().extend(commit.feed);
    kept.commits += 1;
    Committed { version, now: Ms(kept.now) }
}

#[async_trait]
impl Store for FakeStore {
    async fn load(&self, key: &RecordKey) -> Result<Loaded, StoreError> {
        // Others get a turn between a load and a commit, as on a network.
        tokio::task::yield_now().await;
        let kept = self.reachable()?;
        let stored = kept.records.get(key);
        let stored = stored.map(|(version, bytes, ops)| Stored {
            version: *version,
            op: *ops.last().expect("a record has the operation that made it"),
            bytes: bytes.clone(),
        });
        Ok(Loaded { stored, now: Ms(kept.now) })
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        tokio::task::yield_now().await;
        let mut kept = self.reachable().map_err(|why| CommitError::Unavailable(why.to_string()))?;
        let firm = commit.durability == Durability::Firm;
        let done = kept.records.get(&commit.key).filter(|r| r.2.contains(&commit.op));
        let committed = match done {
            Some(record) => Committed { version: record.0, now: Ms(kept.now) },
            None => match refuse(&kept, &commit) {
                Some(why) => return Err(why),
                None => write(&mut kept, commit),
            },
        };
        match kept.trouble {
            Some(Trouble::NotDurable) if firm => Err(CommitError::NotDurable),
            Some(Trouble::RepliesLost) => Err(CommitError::Unknown("reply lost".into())),
            Some(Trouble::NotDurable | Trouble::Down | Trouble::ClockLags) | None => Ok(committed),
        }
    }

    async fn due(
        &self,
        shard: Shard,
        until: Ms,
        offset: usize,
        limit: usize,
    ) -> Result<DuePage, StoreError> {
        let kept = self.reachable()?;
        let due = kept.timers.iter().filter(|(key, at)| key.shard() == shard && **at <= until);
        let mut entries: Vec<_> = due.map(|(key, at)| Due { key: key.clone(), at: *at }).collect();
        entries.sort_by_key(|due| due.at);
        let entries = entries.into_iter().skip(offset).take(limit).collect();
        Ok(DuePage { entries, now: Ms(kept.now) })
    }

    async fn list(
        &self,
        shard: Shard,
        index: &str,
        range: RangeInclusive<Ms>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        let kept = self.reachable()?;
        let Some(list) = kept.lists.get(&(index.to_owned(), shard)) else { return Ok(Vec::new()) };
        let within = list.keys().filter(|(score, _)| range.contains(score));
        let entry = |(score, member): &(Ms, String)| IndexEntry {
            index: index.to_owned(),
            member: member.clone(),
            score: *score,
        };
        Ok(match order {
            Order::LowestFirst => within.take(limit).map(entry).collect(),
            Order::HighestFirst => within.rev().take(limit).map(entry).collect(),
        })
    }

    async fn count(&self, index: &str) -> Result<u64, StoreError> {
        let kept = self.reachable()?;
        let lists = kept.lists.iter().filter(|((name, _), _)| name == index);
        Ok(lists.map(|(_, list)| list.len() as u64).sum())
    }

    async fn now(&self) -> Result<Ms, StoreError> {
        Ok(Ms(self.reachable()?.now))
    }
}

#[async_trait]
impl Feed for FakeStore {
    async fn end(&self, shard: Shard) -> Result<FeedCursor, StoreError> {
        let kept = self.reachable()?;
        Ok(FeedCursor(kept.feeds.get(&shard).map_or(0, Vec::len).to_string()))
    }

    async fn after(
        &self,
        shard: Shard,
        cursor: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError> {
        let kept = self.reachable()?;
        let seen: usize =
            cursor.0.parse().map_err(|_| StoreError::Corrupt("no cursor of this feed".into()))?;
        let lines = kept.feeds.get(&shard).into_iter().flatten().enumerate().skip(seen).take(limit);
        let entry = |(at, json): (usize, &String)| FeedEntry {
            cursor: FeedCursor((at + 1).to_string()),
            json: json.clone(),
        };
        Ok(lines.map(entry).collect())
    }
}

#[async_trait]
impl Blobs for FakeStore {
    async fn put(&self, _: Shard, bytes: Bytes, _: i64) -> Result<Digest, StoreError> {
        let digest = Digest::of_bytes(&bytes);
        self.reachable()?.blobs.insert(digest, bytes);
        Ok(digest)
    }

    async fn get(&self, _: Shard, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        Ok(self.reachable()?.blobs.get(&digest).cloned())
    }
}

#[async_trait]
impl Installation for FakeStore {
    fn shape(&self) -> Shape {
        Shape { shards: ShardCount::new(4).expect("1 to 256"), epoch: Epoch([1; 16]) }
    }

    async fn policy_epoch(&self) -> Result<u64, StoreError> {
        self.reachable().map(|_| 1)
    }

    async fn raise_policy_epoch(&self) -> Result<u64, StoreError> {
        Err(StoreError::Unavailable("not needed by any test here".into()))
    }
}
