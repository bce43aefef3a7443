//! What is in the store?
//!
//! Authority: one snapshot of the file a question, which every answered commit is part of.
//! Invariant: the time that goes with an answer is read after the rows, so nothing in them is
//! younger than it.

use bytes::Bytes;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::OpId;
use portcullis_proto::time::Ms;
use rusqlite::{Connection, OptionalExtension, params};

use super::ONLY_SHARD;
use super::clock::Clock;
use crate::ports::{
    Due, DuePage, FeedCursor, FeedEntry, IndexEntry, Loaded, Order, RecordKey, StoreError, Stored,
    Version,
};

fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn load(
    connection: &Connection,
    clock: &Clock,
    key: &RecordKey,
) -> Result<Loaded, StoreError> {
    type Row = (i64, Option<i64>, Vec<u8>, Vec<u8>);
    let row: Option<Row> = connection
        .prepare_cached("SELECT version, expires_ms, bytes, ops FROM record WHERE key = ?1")?
        .query_row([key.timer_member()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let now = clock.now();
    let Some((version, expires_ms, bytes, ops)) = row else {
        return Ok(Loaded { stored: None, now });
    };
    if expires_ms.is_some_and(|at| at <= now.0) {
        return Ok(Loaded { stored: None, now });
    }
    let version = match u64::try_from(version) {
        Ok(version) if version != 0 => Version(version),
        Ok(_) | Err(_) => {
            let what = format!("the version of {} is {version}", key.timer_member());
            return Err(StoreError::Corrupt(what));
        }
    };
    let Some(op) = ops.last_chunk().copied().map(OpId) else {
        let what = format!("{} has no operation", key.timer_member());
        return Err(StoreError::Corrupt(what));
    };
    Ok(Loaded { stored: Some(Stored { version, op, bytes: Bytes::from(bytes) }), now })
}

pub(super) fn due(
    connection: &Connection,
    clock: &Clock,
    until: Ms,
    offset: usize,
    limit: usize,
) -> Result<DuePage, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT key, next_deadline FROM record
         WHERE next_deadline <= ?1 AND (expires_ms IS NULL OR ?2 < expires_ms)
         ORDER BY next_deadline, id",
    )?;
    let mut rows = statement.query([until.0, clock.now().0])?;
    let mut entries = Vec::new();
    let mut skipped = 0;
    while entries.len() < limit
        && let Some(row) = rows.next()?
    {
        let member: String = row.get(0)?;
        // A kind of record that only a later release knows is that release's to sweep.
        let Some(key) = RecordKey::of_timer_member(ONLY_SHARD, &member) else { continue };
        if skipped < offset {
            skipped += 1;
        } else {
            entries.push(Due { key, at: Ms(row.get(1)?) });
        }
    }
    Ok(DuePage { entries, now: clock.now() })
}

pub(super) fn list(
    connection: &Connection,
    index: &str,
    (low, high): (Ms, Ms),
    order: Order,
    limit: usize,
) -> Result<Vec<IndexEntry>, StoreError> {
    let mut statement = connection.prepare_cached(match order {
        Order::LowestFirst => {
            "SELECT member, score FROM idx WHERE name = ?1 AND score BETWEEN ?2 AND ?3
             ORDER BY score, member LIMIT ?4"
        }
        Order::HighestFirst => {
            "SELECT member, score FROM idx WHERE name = ?1 AND score BETWEEN ?2 AND ?3
             ORDER BY score DESC, member DESC LIMIT ?4"
        }
    })?;
    let rows = statement.query_map(params![index, low.0, high.0, at_most(limit)], |row| {
        Ok(IndexEntry { index: index.to_owned(), member: row.get(0)?, score: Ms(row.get(1)?) })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn count(connection: &Connection, index: &str) -> Result<u64, StoreError> {
    let entries: Option<u64> = connection
        .prepare_cached("SELECT entries FROM idx_size WHERE name = ?1")?
        .query_row([index], |row| row.get(0))
        .optional()?;
    // A list that never had an entry has no row.
    Ok(entries.unwrap_or(0))
}

pub(super) fn feed_end(connection: &Connection) -> Result<FeedCursor, StoreError> {
    let last: Option<i64> =
        connection.prepare_cached("SELECT max(id) FROM feed")?.query_row([], |row| row.get(0))?;
    Ok(FeedCursor(last.unwrap_or(0).to_string()))
}

pub(super) fn feed_after(
    connection: &Connection,
    cursor: &FeedCursor,
    limit: usize,
) -> Result<Vec<FeedEntry>, StoreError> {
    let from: i64 = cursor.0.parse().map_err(|_| {
        let text: String = cursor.0.chars().take(40).collect();
        StoreError::Corrupt(format!("`{text}` is not a place in this store's feed"))
    })?;
    let mut statement = connection
        .prepare_cached("SELECT id, json FROM feed WHERE ?1 < id ORDER BY id LIMIT ?2")?;
    let rows = statement.query_map([from, at_most(limit)], |row| {
        let id: i64 = row.get(0)?;
        Ok(FeedEntry { cursor: FeedCursor(id.to_string()), json: row.get(1)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn blob(
    connection: &Connection,
    clock: &Clock,
    digest: Digest,
) -> Result<Option<Bytes>, StoreError> {
    let bytes: Option<Vec<u8>> = connection
        .prepare_cached("SELECT bytes FROM blob WHERE digest = ?1 AND ?2 < expires_ms")?
        .query_row(params![digest.0, clock.now().0], |row| row.get(0))
        .optional()?;
    match bytes {
        Some(bytes) if Digest::of_bytes(&bytes) != digest => Err(StoreError::Corrupt(format!(
            "the blob {digest} has other bytes than its name says"
        ))),
        bytes => Ok(bytes.map(Bytes::from)),
    }
}

pub(super) fn policy_epoch(connection: &Connection) -> Result<u64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT v FROM meta WHERE k = 'policy_epoch'")?
        .query_row([], |row| row.get(0))?)
}
