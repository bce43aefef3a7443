//! The ports of the memory store, without any fault of their own.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_engine::ports::{
    BLOB_BYTES_MAX, Blobs, Commit, CommitError, Committed, Due, DuePage, Feed, FeedCursor,
    FeedEntry, IndexEntry, Installation, Loaded, Order, RecordKey, Shape, Store, StoreError,
    Stored, Version,
};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{Epoch, Shard};
use portcullis_proto::time::Ms;

use super::MemoryStore;

#[async_trait]
impl Store for MemoryStore {
    async fn load(&self, key: &RecordKey) -> Result<Loaded, StoreError> {
        let mut state = self.open()?;
        let (now, _) = self.read(&mut state);
        let kept = state.records.get(&key.timer_member());
        let live = kept.filter(|kept| kept.expires.is_none_or(|at| now < at));
        let stored = live.map(|kept| Stored {
            version: Version(kept.version),
            op: *kept.ops.last().expect("a record has the operation that made it"),
            bytes: kept.bytes.clone(),
        });
        Ok(Loaded { stored, now })
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        self.commit_now(&commit, true)
    }

    async fn due(
        &self,
        shard: Shard,
        until: Ms,
        offset: usize,
        limit: usize,
    ) -> Result<DuePage, StoreError> {
        let mut state = self.open()?;
        let (now, _) = self.read(&mut state);
        let due = state.timers.iter().filter(|((of, _), at)| *of == shard.0 && **at <= until);
        let readable = due.filter_map(|((_, member), at)| {
            let key = RecordKey::of_timer_member(shard, member)?;
            Some(Due { key, at: *at })
        });
        let mut entries: Vec<_> = readable.collect();
        entries.sort_by_key(|due| due.at);
        let entries = entries.into_iter().skip(offset).take(limit).collect();
        Ok(DuePage { entries, now })
    }

    async fn list(
        &self,
        shard: Shard,
        index: &str,
        range: RangeInclusive<Ms>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        let state = self.open()?;
        let list = state.lists.get(&(shard.0, index.to_owned()));
        let within = list.into_iter().flatten().filter(|(_, score)| range.contains(score));
        let mut entries: Vec<_> = within.map(|(member, score)| (*score, member.clone())).collect();
        entries.sort();
        if order == Order::HighestFirst {
            entries.reverse();
        }
        let entry = |(score, member)| IndexEntry { index: index.to_owned(), member, score };
        Ok(entries.into_iter().take(limit).map(entry).collect())
    }

    async fn count(&self, index: &str) -> Result<u64, StoreError> {
        let state = self.open()?;
        let lists = state.lists.iter().filter(|((_, name), _)| name == index);
        Ok(lists.map(|(_, list)| list.len() as u64).sum())
    }

    async fn now(&self) -> Result<Ms, StoreError> {
        let mut state = self.open()?;
        Ok(self.read(&mut state).0)
    }
}

#[async_trait]
impl Feed for MemoryStore {
    async fn end(&self, shard: Shard) -> Result<FeedCursor, StoreError> {
        let state = self.open()?;
        Ok(FeedCursor(state.feeds.get(&shard.0).map_or(0, Vec::len).to_string()))
    }

    async fn after(
        &self,
        shard: Shard,
        cursor: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError> {
        let state = self.open()?;
        let seen: usize =
            cursor.0.parse().map_err(|_| StoreError::Corrupt("no cursor of this feed".into()))?;
        let lines = state.feeds.get(&shard.0).into_iter().flatten().enumerate();
        let entry = |(at, json): (usize, &String)| FeedEntry {
            cursor: FeedCursor((at + 1).to_string()),
            json: json.clone(),
        };
        Ok(lines.skip(seen).take(limit).map(entry).collect())
    }
}

#[async_trait]
impl Blobs for MemoryStore {
    async fn put(&self, _: Shard, bytes: Bytes, keep_ms: i64) -> Result<Digest, StoreError> {
        let mut state = self.open()?;
        if BLOB_BYTES_MAX < bytes.len() {
            let (bytes, max) = (bytes.len(), BLOB_BYTES_MAX);
            return Err(StoreError::TooLarge { what: "blob", bytes, max });
        }
        let (now, _) = self.read(&mut state);
        let digest = Digest::of_bytes(&bytes);
        state.keep_blob(digest, bytes, now.plus(keep_ms));
        Ok(digest)
    }

    async fn get(&self, _: Shard, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        let mut state = self.open()?;
        let (now, _) = self.read(&mut state);
        let blob = state.blobs.get(&digest.0).filter(|(until, _)| now < *until);
        Ok(blob.map(|(_, bytes)| bytes.clone()))
    }
}

#[async_trait]
impl Installation for MemoryStore {
    fn shape(&self) -> Shape {
        Shape { shards: self.shards, epoch: Epoch([1; 16]) }
    }

    async fn policy_epoch(&self) -> Result<u64, StoreError> {
        Ok(self.open()?.policy_epoch)
    }

    async fn raise_policy_epoch(&self) -> Result<u64, StoreError> {
        let mut state = self.open()?;
        state.policy_epoch += 1;
        Ok(state.policy_epoch)
    }
}
