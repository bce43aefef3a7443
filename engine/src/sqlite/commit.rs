//! May this commit happen, and what does it write?
//!
//! Authority: the rows as this transaction sees them, and the store's clock.
//! Invariant: the checks come in the order of the Redis script and all before the first write;
//! what is refused here is refused there, by the same name.

use portcullis_proto::digest::Digest;
use portcullis_proto::ids::OpId;
use portcullis_proto::time::Ms;
use rusqlite::{Connection, OptionalExtension, params};

use super::clock::Reading;
use super::work::Turn;
use crate::ports::{CLOCK_LAG_MS_MAX, Commit, CommitError, Committed, StoreError, Version};

/// How many operation ids a record remembers.
const OPS_MAX: usize = 8;
const OP_BYTES: usize = 8;

/// Checks and writes one commit. The outer error is SQLite's and takes the whole group back.
pub(super) fn perform(
    turn: &mut Turn<'_>,
    commit: &Commit,
) -> rusqlite::Result<Result<Committed, CommitError>> {
    let time = turn.clock.read();
    let member = commit.key.timer_member();
    let found = match find(turn.connection, &member)? {
        None => None,
        Some(row) => match row.read(time.now) {
            Ok(found) => Some(found),
            Err(why) => {
                let why = format!("the record {member} is unreadable: {why}");
                return Ok(Err(CommitError::Unavailable(why)));
            }
        },
    };
    match judge(turn, commit, found.as_ref(), time)? {
        Verdict::Write(version) => {
            turn.wrote = true;
            write_record(turn.connection, commit, &member, found.as_ref(), version, time.now)?;
            write_around(turn.connection, commit)?;
            Ok(Ok(Committed { version, now: time.now }))
        }
        Verdict::Done(version) => Ok(Ok(Committed { version, now: time.now })),
        Verdict::Refused(why) => Ok(Err(why)),
    }
}

/// A row of `record` as it was read, not yet believed.
struct Row {
    id: i64,
    version: i64,
    expires_ms: Option<i64>,
    ops: Vec<u8>,
}

/// What is known of the record before the commit.
struct Found {
    id: i64,
    version: Version,
    /// The last operation ids, oldest first.
    ops: Vec<u8>,
}

impl Row {
    /// An expired record does not exist any more; its row waits to be collected or taken over.
    fn read(self, now: Ms) -> Result<Found, &'static str> {
        if self.expires_ms.is_some_and(|at| at <= now.0) {
            return Ok(Found { id: self.id, version: Version::ABSENT, ops: Vec::new() });
        }
        let whole = self.ops.len().is_multiple_of(OP_BYTES) && !self.ops.is_empty();
        if !whole || OPS_MAX * OP_BYTES < self.ops.len() {
            return Err("its operation ids are cut short");
        }
        match u64::try_from(self.version) {
            Ok(version) if version != 0 => {
                Ok(Found { id: self.id, version: Version(version), ops: self.ops })
            }
            Ok(_) | Err(_) => Err("its version is not a count"),
        }
    }
}

impl Found {
    /// The version that an operation made, if it is among the last eight.
    fn version_of(&self, op: OpId) -> Option<Version> {
        let newer = self.ops.rchunks_exact(OP_BYTES).position(|known| known == op.0)?;
        Some(Version(self.version.0.saturating_sub(newer as u64)))
    }

    fn ops_with(&self, op: OpId) -> Vec<u8> {
        let keep = self.ops.len().min((OPS_MAX - 1) * OP_BYTES);
        let mut ops = self.ops[self.ops.len() - keep..].to_vec();
        ops.extend_from_slice(&op.0);
        ops
    }
}

fn find(connection: &Connection, member: &str) -> rusqlite::Result<Option<Row>> {
    connection
        .prepare_cached("SELECT id, version, expires_ms, ops FROM record WHERE key = ?1")?
        .query_row([member], |row| {
            Ok(Row {
                id: row.get(0)?,
                version: row.get(1)?,
                expires_ms: row.get(2)?,
                ops: row.get(3)?,
            })
        })
        .optional()
}

enum Verdict {
    Write(Version),
    /// The same operation came before and made this version.
    Done(Version),
    Refused(CommitError),
}

fn judge(
    turn: &Turn<'_>,
    commit: &Commit,
    found: Option<&Found>,
    Reading { now, lag_ms }: Reading,
) -> rusqlite::Result<Verdict> {
    let version = found.map_or(Version::ABSENT, |found| found.version);
    let other = |op: OpId| found.is_some_and(|found| !found.ops.ends_with(&op.0));
    if version != commit.expected || commit.expected_op.is_some_and(other) {
        let made = found.and_then(|found| found.version_of(commit.op));
        return Ok(match made {
            Some(version) => Verdict::Done(version),
            None => Verdict::Refused(CommitError::Conflict { now }),
        });
    }
    let refused = if commit.policy_epoch.is_some_and(|epoch| epoch != turn.policy_epoch) {
        Some(CommitError::Policy { current: turn.policy_epoch })
    } else if commit.need_steady_clock && CLOCK_LAG_MS_MAX < lag_ms {
        Some(CommitError::Clock { lag_ms })
    } else if commit.not_before.is_some_and(|from| now < from) {
        Some(CommitError::Early { now })
    } else if commit.not_after.is_some_and(|until| until <= now) {
        Some(CommitError::Late { now })
    } else {
        gone(turn.connection, commit, now)?
    };
    Ok(refused.map_or(Verdict::Write(Version(version.0 + 1)), Verdict::Refused))
}

fn gone(
    connection: &Connection,
    commit: &Commit,
    now: Ms,
) -> rusqlite::Result<Option<CommitError>> {
    for approval in &commit.require {
        let lives = connection
            .prepare_cached("SELECT 1 FROM licence WHERE approval = ?1 AND ?2 < expires_ms")?
            .exists(params![approval.as_str(), now.0])?;
        if !lives {
            return Ok(Some(CommitError::Gone { approval: approval.clone(), now }));
        }
    }
    Ok(None)
}

fn write_record(
    connection: &Connection,
    commit: &Commit,
    member: &str,
    found: Option<&Found>,
    version: Version,
    now: Ms,
) -> rusqlite::Result<()> {
    let version = i64::try_from(version.0).expect("one more than a version that was read as i64");
    let deadline = commit.next_deadline.map(|at| at.0);
    let expires = commit.retain_ms.map(|ms| now.plus(ms).0);
    let bytes: &[u8] = &commit.bytes;
    match found {
        Some(found) => {
            let ops = found.ops_with(commit.op);
            connection
                .prepare_cached(
                    "UPDATE record SET version = ?2, next_deadline = ?3, expires_ms = ?4,
                     ops = ?5, bytes = ?6 WHERE id = ?1",
                )?
                .execute(params![found.id, version, deadline, expires, ops, bytes])?;
        }
        None => {
            let ops: &[u8] = &commit.op.0;
            connection
                .prepare_cached(
                    "INSERT INTO record (key, version, next_deadline, expires_ms, ops, bytes)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![member, version, deadline, expires, ops, bytes])?;
        }
    }
    Ok(())
}

/// Licences, lists and feed. What one commit both sets and removes is removed.
fn write_around(connection: &Connection, commit: &Commit) -> rusqlite::Result<()> {
    for (approval, until) in &commit.licences_set {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO licence (approval, expires_ms) VALUES (?1, ?2)",
            )?
            .execute(params![approval.as_str(), until.0])?;
    }
    for approval in &commit.licences_del {
        connection
            .prepare_cached("DELETE FROM licence WHERE approval = ?1")?
            .execute([approval.as_str()])?;
    }
    for entry in &commit.index_set {
        // Not OR REPLACE: that removes without the trigger that keeps the list's length.
        connection
            .prepare_cached(
                "INSERT INTO idx (name, member, score) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name, member) DO UPDATE SET score = excluded.score",
            )?
            .execute(params![entry.index, entry.member, entry.score.0])?;
    }
    for (index, member) in &commit.index_del {
        connection
            .prepare_cached("DELETE FROM idx WHERE name = ?1 AND member = ?2")?
            .execute([index, member])?;
    }
    for json in &commit.feed {
        connection.prepare_cached("INSERT INTO feed (json) VALUES (?1)")?.execute([json])?;
    }
    Ok(())
}

/// Keeps a blob at least until `keep_ms` from now; an earlier promise to keep it longer holds.
pub(super) fn put_blob(
    turn: &mut Turn<'_>,
    digest: Digest,
    bytes: &[u8],
    keep_ms: i64,
) -> rusqlite::Result<Result<Digest, StoreError>> {
    turn.wrote = true;
    turn.connection
        .prepare_cached(
            "INSERT INTO blob (digest, expires_ms, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (digest) DO UPDATE SET expires_ms = max(expires_ms, excluded.expires_ms)",
        )?
        .execute(params![digest.0, turn.clock.now().plus(keep_ms).0, bytes])?;
    Ok(Ok(digest))
}

/// From here on every approval asked for under an older epoch is void, later in this group too.
pub(super) fn raise_policy_epoch(turn: &mut Turn<'_>) -> rusqlite::Result<Result<u64, StoreError>> {
    turn.wrote = true;
    turn.policy_epoch = turn
        .connection
        .prepare_cached("UPDATE meta SET v = v + 1 WHERE k = 'policy_epoch' RETURNING v")?
        .query_row([], |row| row.get(0))?;
    Ok(Ok(turn.policy_epoch))
}
