//! What is in the store? Loads, timers, lists, feeds and blobs, each one round trip with the time.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::Shard;
use portcullis_proto::time::Ms;
use portcullis_proto::topology;
use redis::Value;

use super::script::{Call, KEEP, READ};
use super::{RedisStore, record, reply};
use crate::ports::{
    BLOB_BYTES_MAX, Blobs, Commit, CommitError, Committed, Due, DuePage, Feed, FeedCursor,
    FeedEntry, IndexEntry, Loaded, Order, RecordKey, Store, StoreError,
};

/// The place in front of every entry of a stream.
const FEED_START: &str = "0-0";
/// How often one call looks further for timer entries that can be read.
const DUE_READS_MAX: usize = 16;

impl RedisStore {
    /// One reading command on one key of a shard: the store's time, and the reply.
    pub(super) async fn read(
        &self,
        shard: Shard,
        key: &str,
        command: &str,
        arguments: &[&[u8]],
    ) -> Result<(Ms, Value), StoreError> {
        self.known(shard)?;
        let mut call = Call::new(&READ, [topology::meta_key(shard).as_str(), key]);
        call.arg(&self.epoch).arg(command.as_bytes());
        for argument in arguments {
            call.arg(argument);
        }
        let mut parts = reply::array(self.lines.reads.repeat(&call).await?)?.into_iter();
        match reply::int(&parts.next().unwrap_or(Value::Nil))? {
            -1 => Err(StoreError::Epoch),
            now => Ok((Ms(now), parts.next().unwrap_or(Value::Nil))),
        }
    }

    /// Members of a shard's timer with their times, readable or not.
    async fn timer(
        &self,
        shard: Shard,
        until: Ms,
        offset: usize,
        limit: usize,
    ) -> Result<(Ms, Vec<(String, i64)>), StoreError> {
        let key = topology::timer_key(shard);
        let (until, offset, limit) = (until.0.to_string(), offset.to_string(), limit.to_string());
        let page = ["-inf", &until, "BYSCORE", "LIMIT", &offset, &limit, "WITHSCORES"];
        let (now, value) = self.read(shard, &key, "ZRANGE", &page.map(str::as_bytes)).await?;
        Ok((now, reply::scored(value)?))
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn load(&self, key: &RecordKey) -> Result<Loaded, StoreError> {
        let (now, value) = self.read(key.shard(), &key.store_key(), "GET", &[]).await?;
        let stored = reply::maybe_bytes(value)?.map(record::decode).transpose()?;
        Ok(Loaded { stored, now })
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        self.commit_one(commit).await
    }

    async fn due(
        &self,
        shard: Shard,
        until: Ms,
        offset: usize,
        limit: usize,
    ) -> Result<DuePage, StoreError> {
        let mut page = DuePage { entries: vec![], now: Ms(0) };
        let mut skip = offset;
        // Entries that nobody can read must not hide those behind them.
        for _ in 0..DUE_READS_MAX {
            let wanted = limit - page.entries.len();
            let (now, members) = self.timer(shard, until, skip, wanted).await?;
            let found = members.len();
            for (member, at) in members {
                match RecordKey::of_timer_member(shard, &member) {
                    Some(key) => page.entries.push(Due { key, at: Ms(at) }),
                    None => self.tell_unreadable(shard, member),
                }
            }
            page.now = now;
            skip += found;
            if found < wanted || page.entries.len() == limit {
                break;
            }
        }
        Ok(page)
    }

    async fn list(
        &self,
        shard: Shard,
        index: &str,
        range: RangeInclusive<Ms>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        let key = topology::index_key(shard, index);
        let (low, high) = (range.start().0.to_string(), range.end().0.to_string());
        let limit = limit.to_string();
        let page = match order {
            Order::LowestFirst => vec![&*low, &high, "BYSCORE"],
            Order::HighestFirst => vec![&*high, &low, "BYSCORE", "REV"],
        };
        let page = [&page[..], &["LIMIT", "0", &limit, "WITHSCORES"]].concat();
        let page: Vec<_> = page.into_iter().map(str::as_bytes).collect();
        let (_, value) = self.read(shard, &key, "ZRANGE", &page).await?;
        let entry = |(member, score)| IndexEntry { index: index.into(), member, score: Ms(score) };
        Ok(reply::scored(value)?.into_iter().map(entry).collect())
    }

    async fn count(&self, index: &str) -> Result<u64, StoreError> {
        let one = async |shard| {
            let key = topology::index_key(shard, index);
            let (_, value) = self.read(shard, &key, "ZCARD", &[]).await?;
            let members = reply::int(&value)?;
            u64::try_from(members).map_err(|_| StoreError::Corrupt(format!("{members} entries")))
        };
        let counts = try_join_all(self.shape.shards.all().map(one)).await?;
        Ok(counts.into_iter().sum())
    }

    async fn now(&self) -> Result<Ms, StoreError> {
        let meta = topology::meta_key(Shard(0));
        self.read(Shard(0), &meta, "HLEN", &[]).await.map(|(now, _)| now)
    }
}

#[async_trait]
impl Feed for RedisStore {
    async fn end(&self, shard: Shard) -> Result<FeedCursor, StoreError> {
        let newest: [&[u8]; 4] = [b"+", b"-", b"COUNT", b"1"];
        let key = topology::feed_key(shard);
        let (_, value) = self.read(shard, &key, "XREVRANGE", &newest).await?;
        let newest = stream(value)?.pop();
        Ok(newest.map_or_else(|| FeedCursor(FEED_START.into()), |entry| entry.cursor))
    }

    async fn after(
        &self,
        shard: Shard,
        cursor: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError> {
        if !is_cursor(&cursor.0) {
            let text: String = cursor.0.chars().take(80).collect();
            return Err(StoreError::Corrupt(format!("`{text}` is no place in a feed")));
        }
        let (from, limit) = (format!("({}", cursor.0), limit.to_string());
        let page = [&*from, "+", "COUNT", &limit].map(str::as_bytes);
        let key = topology::feed_key(shard);
        let (_, value) = self.read(shard, &key, "XRANGE", &page).await?;
        stream(value)
    }
}

/// `<milliseconds>-<number>`, as the stream names its entries.
fn is_cursor(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u64>().is_ok()
    };
    text.split_once('-').is_some_and(|(ms, n)| number(ms) && number(n))
}

fn stream(value: Value) -> Result<Vec<FeedEntry>, StoreError> {
    let entries = reply::array(value)?.into_iter().map(|entry| {
        let mut parts = reply::array(entry)?.into_iter();
        let mut part = || parts.next().unwrap_or(Value::Nil);
        let cursor = FeedCursor(reply::text(part())?);
        let mut fields = reply::array(part())?.into_iter().skip(1);
        let json = reply::text(fields.next().unwrap_or(Value::Nil))?;
        Ok(FeedEntry { cursor, json })
    });
    entries.collect()
}

#[async_trait]
impl Blobs for RedisStore {
    async fn put(&self, shard: Shard, bytes: Bytes, keep_ms: i64) -> Result<Digest, StoreError> {
        self.known(shard)?;
        if BLOB_BYTES_MAX < bytes.len() {
            let (what, bytes) = ("a blob", bytes.len());
            return Err(StoreError::TooLarge { what, bytes, max: BLOB_BYTES_MAX });
        }
        let digest = Digest::of_bytes(&bytes);
        let keys = [topology::meta_key(shard), topology::blob_key(shard, digest)];
        let mut call = Call::new(&KEEP, keys);
        let keep_ms = keep_ms.clamp(1, i64::from(u32::MAX) * 1_000);
        call.arg(&self.epoch).arg(keep_ms.to_string().as_bytes()).arg(&bytes);
        match reply::int(&self.lines.reads.repeat(&call).await?)? {
            1 => Ok(digest),
            -1 => Err(StoreError::Epoch),
            odd => Err(StoreError::Corrupt(format!("{odd} for a blob"))),
        }
    }

    async fn get(&self, shard: Shard, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        let key = topology::blob_key(shard, digest);
        let (_, value) = self.read(shard, &key, "GET", &[]).await?;
        let Some(bytes) = reply::maybe_bytes(value)? else { return Ok(None) };
        if Digest::of_bytes(&bytes) != digest {
            return Err(StoreError::Corrupt(format!("the blob {digest} has another content")));
        }
        Ok(Some(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_streams_own_ids_are_cursors() {
        for good in ["0-0", "1760000000000-3"] {
            assert!(is_cursor(good), "{good}");
        }
        for bad in ["", "0", "-", "1-", "-1", "+", "(1-1", "1-1-1", "99999999999999999999-0"] {
            assert!(!is_cursor(bad), "{bad}");
        }
    }
}
