//! A store in memory that can do to its users what real ones do: refuse, forget, lag.
//!
//! Authority: the maps under one lock, checked in the order of the commit script.
//! Invariant: what is written after the last firm commit can be taken back, newest first; what a
//! firm commit was answered for cannot. Blobs, the policy epoch and the highest time seen stay.

mod ports;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytes::Bytes;
use portcullis_engine::ports::{
    CLOCK_LAG_MS_MAX, Commit, CommitError, Committed, Durability, RECORD_BYTES_MAX, RecordKey,
    StoreError, Version,
};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, OpId, Shard, ShardCount};
use portcullis_proto::time::Ms;
use tokio::time::Instant;

/// What the clock shows when a store is made, in milliseconds since 1970.
pub const BEGINNING: Ms = Ms(1_700_000_000_000);
/// How many operations a record remembers.
const OPS_MAX: usize = 8;

/// One committed write, as somebody who looks over the store's shoulder sees it.
pub struct Written<'a> {
    /// What the record held before.
    pub before: Option<&'a Bytes>,
    pub commit: &'a Commit,
    pub now: Ms,
}

/// Is told of every write, right after it, and of every loss.
pub trait Watch: Send + Sync {
    fn written(&self, store: &MemoryStore, written: &Written<'_>);
    fn rolled_back(&self, store: &MemoryStore, commits: usize);
}

#[derive(Clone, Debug)]
struct Kept {
    version: u64,
    bytes: Bytes,
    ops: Vec<OpId>,
    expires: Option<Ms>,
}

/// What takes one small write back.
#[derive(Debug)]
enum Undo {
    Record(String, Option<Kept>),
    Timer((u8, String), Option<Ms>),
    Entry((u8, String), String, Option<Ms>),
    Licence(ApprovalId, Option<Ms>),
    Feed(u8, usize),
    /// The beginning of a commit.
    Commit,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<String, Kept>,
    timers: BTreeMap<(u8, String), Ms>,
    lists: BTreeMap<(u8, String), BTreeMap<String, Ms>>,
    licences: BTreeMap<ApprovalId, Ms>,
    feeds: BTreeMap<u8, Vec<String>>,
    blobs: BTreeMap<[u8; 32], (Ms, Bytes)>,
    policy_epoch: u64,
    swapped: bool,
    high: Ms,
    offset_ms: i64,
    undo: Vec<Undo>,
}

/// A store for one installation of any number of processes.
pub struct MemoryStore {
    state: Mutex<State>,
    began: Instant,
    shards: ShardCount,
    watch: OnceLock<Arc<dyn Watch>>,
}

impl MemoryStore {
    /// An empty store with 1 to 256 shards.
    ///
    /// # Panics
    /// When the number of shards is out of bounds.
    #[must_use]
    pub fn new(shards: u16) -> Arc<Self> {
        let state = State { policy_epoch: 1, high: BEGINNING, ..State::default() };
        Arc::new(Self {
            state: Mutex::new(state),
            began: Instant::now(),
            shards: ShardCount::new(shards).unwrap(),
            watch: OnceLock::new(),
        })
    }

    /// Lets somebody look over the store's shoulder. Once.
    pub fn watch(&self, watch: Arc<dyn Watch>) {
        assert!(self.watch.set(watch).is_ok(), "one watcher");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        if state.swapped { Err(StoreError::Epoch) } else { Ok(state) }
    }

    /// The store's time, and how far its clock is behind it.
    fn read(&self, state: &mut State) -> (Ms, i64) {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap();
        let clock = BEGINNING.plus(passed).plus(state.offset_ms);
        state.high = state.high.max(clock);
        (state.high, state.high.since(clock))
    }

    /// The store's time, whatever is wrong with the store.
    #[must_use]
    pub fn time(&self) -> Ms {
        self.read(&mut self.lock()).0
    }

    /// Moves the clock, forward or back, in milliseconds.
    pub fn move_clock(&self, ms: i64) {
        let mut state = self.lock();
        self.read(&mut state);
        state.offset_ms += ms;
    }

    /// Lets the clock show the time again that the store has: the fault is mended.
    pub fn steady_clock(&self) {
        let mut state = self.lock();
        let (_, lag) = self.read(&mut state);
        state.offset_ms += lag;
    }

    /// Puts another, empty store in its place, or the right one back.
    pub fn swap(&self, swapped: bool) {
        self.lock().swapped = swapped;
    }

    /// Deletes a licence, as an operator may. Whether there was one.
    pub fn revoke(&self, approval: &ApprovalId) -> bool {
        self.lock().licences.remove(approval).is_some()
    }

    /// Every record of a run, as it stands, whatever is wrong with the store.
    #[must_use]
    pub fn runs(&self) -> Vec<(String, Bytes)> {
        let state = self.lock();
        let runs = state.records.iter().filter(|(member, _)| !member.starts_with("c:"));
        runs.map(|(member, kept)| (member.clone(), kept.bytes.clone())).collect()
    }

    /// One record by its timer member, its timer entry, and nothing if there is none.
    #[must_use]
    pub fn peek(&self, key: &RecordKey) -> Option<(Bytes, Option<Ms>)> {
        let (state, member) = (self.lock(), key.timer_member());
        let kept = state.records.get(&member)?;
        let timer = state.timers.get(&(key.shard().0, member.clone())).copied();
        Some((kept.bytes.clone(), timer))
    }

    /// Until when a licence lives, if it was set and not deleted.
    #[must_use]
    pub fn licence(&self, approval: &ApprovalId) -> Option<Ms> {
        self.lock().licences.get(approval).copied()
    }

    /// The policy epoch, whatever is wrong with the store.
    #[must_use]
    pub fn policy_now(&self) -> u64 {
        self.lock().policy_epoch
    }

    /// Everything that is kept but the highest time seen, by name.
    #[must_use]
    pub fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        let all = [
            ("records", format!("{:?}", state.records)),
            ("timers", format!("{:?}", state.timers)),
            ("lists", format!("{:?}", state.lists)),
            ("licences", format!("{:?}", state.licences)),
            ("feeds", format!("{:?}", state.feeds)),
            ("blobs", format!("{:?}", state.blobs)),
            ("policy", format!("{:?}", state.policy_epoch)),
        ];
        all.map(|(name, text)| (name.to_owned(), text.into_bytes())).into()
    }

    /// Adds a timer entry around the ports.
    pub fn plant_timer(&self, shard: Shard, member: &str, at: Ms) {
        self.lock().timers.insert((shard.0, member.to_owned()), at);
    }

    /// Loses every commit since the last firm one, as a failover does: how many there were.
    pub fn crash(&self) -> usize {
        let mut state = self.lock();
        let mut lost = 0;
        while let Some(undo) = state.undo.pop() {
            lost += usize::from(matches!(undo, Undo::Commit));
            state.take_back(undo);
        }
        drop(state);
        if let Some(watch) = self.watch.get() {
            watch.rolled_back(self, lost);
        }
        lost
    }

    /// Commits; a firm commit with `durable` unset is written and can still be lost.
    ///
    /// # Errors
    /// As the port says; never `Unavailable` or `Unknown`, which are the network's.
    pub fn commit_now(&self, commit: &Commit, durable: bool) -> Result<Committed, CommitError> {
        let mut state = self.open().map_err(|_| CommitError::Epoch)?;
        if RECORD_BYTES_MAX < commit.bytes.len() {
            return Err(CommitError::TooLarge { bytes: commit.bytes.len() });
        }
        let (now, lag_ms) = self.read(&mut state);
        let member = commit.key.timer_member();
        let found = state.records.get(&member).cloned();
        let live = found.filter(|kept| kept.expires.is_none_or(|at| now < at));
        let firm = commit.durability == Durability::Firm;
        let other = |op: OpId| live.as_ref().is_some_and(|kept| kept.ops.last() != Some(&op));
        let version = live.as_ref().map_or(0, |kept| kept.version);
        if version != commit.expected.0 || commit.expected_op.is_some_and(other) {
            let made = live.as_ref().and_then(|kept| version_of(kept, commit.op));
            let version = made.ok_or(CommitError::Conflict { now })?;
            return settled(&mut state, firm, durable).map(|()| Committed { version, now });
        }
        state.may(commit, now, lag_ms)?;
        let before = live.as_ref().map(|kept| kept.bytes.clone());
        let version = Version(commit.expected.0 + 1);
        state.write(commit, member, live, now);
        let answer = settled(&mut state, firm, durable);
        drop(state);
        if let Some(watch) = self.watch.get() {
            watch.written(self, &Written { before: before.as_ref(), commit, now });
        }
        answer.map(|()| Committed { version, now })
    }
}

/// What the replicas say to a firm commit.
fn settled(state: &mut State, firm: bool, durable: bool) -> Result<(), CommitError> {
    if firm && !durable {
        return Err(CommitError::NotDurable);
    }
    if firm {
        state.undo.clear();
    }
    Ok(())
}

/// The version that an operation made, if it is among the last eight.
fn version_of(kept: &Kept, op: OpId) -> Option<Version> {
    let newer = kept.ops.iter().rev().position(|known| *known == op)?;
    Some(Version(kept.version - newer as u64))
}

impl State {
    fn may(&self, commit: &Commit, now: Ms, lag_ms: i64) -> Result<(), CommitError> {
        if commit.policy_epoch.is_some_and(|epoch| epoch != self.policy_epoch) {
            return Err(CommitError::Policy { current: self.policy_epoch });
        }
        if commit.need_steady_clock && CLOCK_LAG_MS_MAX < lag_ms {
            return Err(CommitError::Clock { lag_ms });
        }
        if commit.not_before.is_some_and(|from| now < from) {
            return Err(CommitError::Early { now });
        }
        if commit.not_after.is_some_and(|until| until <= now) {
            return Err(CommitError::Late { now });
        }
        let lives = |id: &&ApprovalId| self.licences.get(*id).is_some_and(|until| now < *until);
        match commit.require.iter().find(|id| !lives(id)) {
            Some(gone) => Err(CommitError::Gone { approval: gone.clone(), now }),
            None => Ok(()),
        }
    }

    fn write(&mut self, commit: &Commit, member: String, live: Option<Kept>, now: Ms) {
        self.undo.push(Undo::Commit);
        let shard = commit.key.shard().0;
        let mut ops = live.map(|kept| kept.ops).unwrap_or_default();
        ops.push(commit.op);
        ops.drain(..ops.len().saturating_sub(OPS_MAX));
        let kept = Kept {
            version: commit.expected.0 + 1,
            bytes: commit.bytes.clone(),
            ops,
            expires: commit.retain_ms.map(|ms| now.plus(ms)),
        };
        let old = self.records.insert(member.clone(), kept);
        self.undo.push(Undo::Record(member.clone(), old));
        let timer = (shard, member);
        let old = put(&mut self.timers, timer.clone(), commit.next_deadline);
        self.undo.push(Undo::Timer(timer, old));
        for (licence, until) in &commit.licences_set {
            let old = put(&mut self.licences, licence.clone(), Some(*until));
            self.undo.push(Undo::Licence(licence.clone(), old));
        }
        for licence in &commit.licences_del {
            let old = put(&mut self.licences, licence.clone(), None);
            self.undo.push(Undo::Licence(licence.clone(), old));
        }
        let set = commit.index_set.iter().map(|e| (&e.index, &e.member, Some(e.score)));
        let del = commit.index_del.iter().map(|(index, member)| (index, member, None));
        for (index, member, score) in set.chain(del) {
            let list = (shard, index.clone());
            let old = put(self.lists.entry(list.clone()).or_default(), member.clone(), score);
            self.undo.push(Undo::Entry(list, member.clone(), old));
        }
        let feed = self.feeds.entry(shard).or_default();
        self.undo.push(Undo::Feed(shard, feed.len()));
        feed.extend(commit.feed.iter().cloned());
    }

    fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::Record(member, old) => {
                put(&mut self.records, member, old);
            }
            Undo::Timer(timer, old) => {
                put(&mut self.timers, timer, old);
            }
            Undo::Entry(list, member, old) => {
                put(self.lists.entry(list).or_default(), member, old);
            }
            Undo::Licence(licence, old) => {
                put(&mut self.licences, licence, old);
            }
            Undo::Feed(shard, length) => self.feeds.entry(shard).or_default().truncate(length),
            Undo::Commit => {}
        }
    }

    fn keep_blob(&mut self, digest: Digest, bytes: Bytes, until: Ms) {
        let blob = self.blobs.entry(digest.0).or_insert((until, bytes));
        blob.0 = blob.0.max(until);
    }
}

/// Sets or removes an entry; what was there before.
fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}
