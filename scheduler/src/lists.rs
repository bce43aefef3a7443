//! How are the store's lists read across its shards, a page at a time?
//!
//! Authority: the store's lists. They are written with the records, so what stands in one existed
//! when it was read; the record itself is read again before anything is said about it.
//! Invariant: a page is ordered by score, then by member, also where many share a score.

use std::cmp::Reverse;
use std::str::FromStr;

use futures_util::future::try_join_all;
use portcullis_engine::Held;
use portcullis_engine::StepError;
use portcullis_engine::ports::{IndexEntry, Order, StoreError};
use portcullis_proto::ids::{RunId, Shard};
use portcullis_proto::time::Ms;

use crate::Scheduler;

/// The latest time that every store can order exactly, in milliseconds (the year 144683).
pub(crate) const MS_LATEST: Ms = Ms(i64::MAX >> 11);
/// How many entries of one shard are read to get past those that share a score.
const READ_MAX: usize = 16_384;

/// Where a page ended: the next one begins behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    score: Ms,
    member: String,
}

impl Place {
    pub(crate) fn of(entry: &IndexEntry) -> Self {
        Self { score: entry.score, member: entry.member.clone() }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.score.0, self.member)
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (score, member) = text.split_once('_').ok_or(())?;
        let score = Ms(score.parse().map_err(|_| ())?);
        Ok(Self { score, member: member.to_owned() })
    }
}

impl Scheduler {
    fn shards(&self) -> impl Iterator<Item = Shard> {
        self.engine.store.shape().shards.all()
    }

    /// The first `limit` entries of a list over all shards, lowest score first.
    pub(crate) async fn list_all(
        &self,
        index: &str,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        let reads = self.shards().map(|shard| {
            let range = Ms(0)..=MS_LATEST;
            self.engine.store.list(shard, index, range, Order::LowestFirst, limit)
        });
        let mut entries = try_join_all(reads).await?.concat();
        entries.sort_by(|a, b| (a.score, &a.member).cmp(&(b.score, &b.member)));
        entries.truncate(limit);
        Ok(entries)
    }

    /// Up to `limit` entries of several lists, highest score first, behind `after`.
    pub(crate) async fn newest(
        &self,
        indexes: &[String],
        after: Option<&Place>,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        let reads = self.shards().flat_map(|shard| {
            indexes.iter().map(move |index| self.newest_of(shard, index, after, limit))
        });
        let mut entries = try_join_all(reads).await?.concat();
        entries.sort_by_key(|entry| Reverse((entry.score, entry.member.clone())));
        entries.truncate(limit);
        Ok(entries)
    }

    async fn newest_of(
        &self,
        shard: Shard,
        index: &str,
        after: Option<&Place>,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        let highest = after.map_or(MS_LATEST, |place| place.score);
        let mut read = limit;
        loop {
            let range = Ms(0)..=highest;
            let order = Order::HighestFirst;
            let mut entries = self.engine.store.list(shard, index, range, order, read).await?;
            let all = entries.len() < read || READ_MAX <= read;
            entries.retain(|entry| after.is_none_or(|place| Place::of(entry) < *place));
            // Those at the page's edge share its score: read on until enough lie behind it.
            if all || limit <= entries.len() {
                return Ok(entries);
            }
            read = read.saturating_mul(4).min(READ_MAX);
        }
    }

    /// Reads several runs at once; those that are gone by now are left out.
    pub(crate) async fn load_all(
        &self,
        ids: impl Iterator<Item = RunId>,
    ) -> Result<Vec<(Held, Ms)>, StepError> {
        let loads = ids.map(|id| async move { self.engine.load(&id).await });
        let loaded = try_join_all(loads).await?;
        Ok(loaded.into_iter().filter_map(|(held, now)| held.map(|held| (held, now))).collect())
    }
}
