//! One process's way to the store, with everything that can go wrong on it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_engine::ports::{
    Blobs, Commit, CommitError, Committed, DuePage, Durability, Feed, FeedCursor, FeedEntry,
    IndexEntry, Installation, Loaded, Order, RecordKey, Shape, Store, StoreError,
};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::Shard;
use portcullis_proto::time::Ms;

use super::life::{Life, Step};
use super::store::MemoryStore;

/// The store as one process reaches it.
pub struct StorePort(pub Arc<Life>);

impl StorePort {
    async fn reach(&self, step: Step) -> Result<&MemoryStore, StoreError> {
        self.0.pass(step).await;
        self.0.travel().await;
        let world = &self.0.world;
        if world.store_is_down() || world.strikes(400) {
            world.count("unavailable");
            return Err(StoreError::Unavailable("the storm".to_owned()));
        }
        Ok(&world.store)
    }

    /// Commits, and may lose the way back.
    async fn try_commit(&self, commit: &Commit) -> Result<Committed, CommitError> {
        let store = self.reach(Step::Write).await.map_err(|why| match why {
            StoreError::Epoch => CommitError::Epoch,
            other @ (StoreError::Unavailable(_)
            | StoreError::Corrupt(_)
            | StoreError::TooLarge { .. }) => CommitError::Unavailable(other.to_string()),
        })?;
        let world = &self.0.world;
        if world.strikes(100) {
            return Err(CommitError::Unknown("the request was lost".to_owned()));
        }
        if world.strikes(1_500) {
            return Err(CommitError::TooLarge { bytes: commit.bytes.len() });
        }
        if world.strikes(1_500) {
            return Err(CommitError::Early { now: store.time() });
        }
        let firm = commit.durability == Durability::Firm;
        let answer = store.commit_now(commit, !(firm && world.strikes(60)));
        if answer.is_ok() || answer == Err(CommitError::NotDurable) {
            world.count("commits");
        }
        if world.strikes(250) {
            let lost = store.crash();
            world.store_outage(world.draw(|chance| chance.between(0, 3_000)));
            world.note("store crashes", || format!("after a commit, {lost} lost"));
            return Err(CommitError::Unknown("the store crashed".to_owned()));
        }
        if world.strikes(80) {
            return Err(CommitError::Unknown("the reply was lost".to_owned()));
        }
        self.0.pass(Step::Write).await;
        self.0.travel().await;
        answer
    }
}

const fn word(answer: &Result<Committed, CommitError>) -> &'static str {
    match answer {
        Ok(_) => "answer: ok",
        Err(CommitError::Conflict { .. }) => "answer: conflict",
        Err(CommitError::Early { .. }) => "answer: early",
        Err(CommitError::Late { .. }) => "answer: late",
        Err(CommitError::Gone { .. }) => "answer: gone",
        Err(CommitError::Clock { .. }) => "answer: clock",
        Err(CommitError::Epoch) => "answer: epoch",
        Err(CommitError::Policy { .. }) => "answer: policy",
        Err(CommitError::NotDurable) => "answer: not durable",
        Err(CommitError::TooLarge { .. }) => "answer: too large",
        Err(CommitError::Unavailable(_)) => "answer: unavailable",
        Err(CommitError::Unknown(_)) => "answer: unknown",
    }
}

#[async_trait]
impl Store for StorePort {
    async fn load(&self, key: &RecordKey) -> Result<Loaded, StoreError> {
        let loaded = self.reach(Step::Read).await?.load(key).await;
        self.0.travel().await;
        self.0.pass(Step::Read).await;
        loaded
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let answer = self.try_commit(&commit).await;
        let world = &self.0.world;
        world.note(word(&answer), || format!("{} {}", self.0.name, commit.key.timer_member()));
        if answer.is_ok() {
            world.judge.answered(&commit);
        }
        answer
    }

    async fn due(
        &self,
        shard: Shard,
        until: Ms,
        offset: usize,
        limit: usize,
    ) -> Result<DuePage, StoreError> {
        self.reach(Step::Read).await?.due(shard, until, offset, limit).await
    }

    async fn list(
        &self,
        shard: Shard,
        index: &str,
        range: RangeInclusive<Ms>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        self.reach(Step::Read).await?.list(shard, index, range, order, limit).await
    }

    async fn count(&self, index: &str) -> Result<u64, StoreError> {
        self.reach(Step::Read).await?.count(index).await
    }

    async fn now(&self) -> Result<Ms, StoreError> {
        self.reach(Step::Read).await?.now().await
    }
}

#[async_trait]
impl Feed for StorePort {
    async fn end(&self, shard: Shard) -> Result<FeedCursor, StoreError> {
        self.reach(Step::Read).await?.end(shard).await
    }

    async fn after(
        &self,
        shard: Shard,
        cursor: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError> {
        self.reach(Step::Read).await?.after(shard, cursor, limit).await
    }
}

#[async_trait]
impl Blobs for StorePort {
    async fn put(&self, shard: Shard, bytes: Bytes, keep_ms: i64) -> Result<Digest, StoreError> {
        self.reach(Step::Write).await?.put(shard, bytes, keep_ms).await
    }

    async fn get(&self, shard: Shard, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        self.reach(Step::Read).await?.get(shard, digest).await
    }
}

#[async_trait]
impl Installation for StorePort {
    fn shape(&self) -> Shape {
        self.0.world.store.shape()
    }

    async fn policy_epoch(&self) -> Result<u64, StoreError> {
        self.reach(Step::Read).await?.policy_epoch().await
    }

    async fn raise_policy_epoch(&self) -> Result<u64, StoreError> {
        self.reach(Step::Write).await?.raise_policy_epoch().await
    }
}
