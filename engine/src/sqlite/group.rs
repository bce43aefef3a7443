//! What happens to everything that waits, in one transaction with one fsync?
//!
//! Authority: SQLite's transaction.
//! Invariant: a piece of work checks everything before its first write, so a refused one leaves no
//! trace and does not disturb its neighbours. An error of SQLite takes the whole group back.
//! If we crash here: nothing of the group happened, or all of it did and nobody was answered; the
//! callers' operation ids tell which.

use portcullis_proto::ids::Epoch;
use portcullis_proto::time::Ms;
use rusqlite::{Connection, Error, ErrorCode, OptionalExtension};

use super::clock::Clock;
use super::work::{Failure, Turn, Work};

/// Does all of `group` in one transaction, and returns the highest time that the file now holds.
pub(super) fn run(
    connection: &Connection,
    clock: &Clock,
    epoch: Epoch,
    group: &mut [Box<dyn Work>],
) -> Result<Option<Ms>, Failure> {
    let filled = match fill(connection, clock, epoch, group) {
        Ok(filled) => filled,
        Err(stop) => {
            roll_back(connection);
            return Err(match stop {
                Stop::Swapped => Failure::Swapped,
                Stop::Sqlite(why) => Failure::Unavailable(explain(&why)),
            });
        }
    };
    let Err(why) = connection.execute_batch("COMMIT") else { return Ok(filled.seen) };
    roll_back(connection);
    let turns = meta(connection).map(|meta| meta.turns).ok();
    Err(after_failed_commit(&why, filled.turns, turns))
}

/// What `BEGIN` to just before `COMMIT` left behind.
struct Filled {
    /// The count of committed groups before this one.
    turns: i64,
    seen: Option<Ms>,
}

enum Stop {
    Swapped,
    Sqlite(Error),
}

impl From<Error> for Stop {
    fn from(why: Error) -> Self {
        Self::Sqlite(why)
    }
}

fn fill(
    connection: &Connection,
    clock: &Clock,
    epoch: Epoch,
    group: &mut [Box<dyn Work>],
) -> Result<Filled, Stop> {
    // Immediate: a transaction that begins as a reader may not become a writer.
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    if epoch_of(connection)? != Some(epoch) {
        return Err(Stop::Swapped);
    }
    let meta = meta(connection)?;
    let policy_epoch = meta.policy_epoch;
    let mut turn = Turn { connection, clock, policy_epoch, wrote: false };
    for work in group {
        work.perform(&mut turn)?;
    }
    let seen = turn.wrote.then(|| clock.now());
    if let Some(now) = seen {
        connection
            .prepare_cached(
                "UPDATE meta SET v = CASE k WHEN 'hw' THEN max(v, ?1) ELSE v + 1 END
                 WHERE k IN ('hw', 'turns')",
            )?
            .execute([now.0])?;
    }
    Ok(Filled { turns: meta.turns, seen })
}

/// May a group whose `COMMIT` failed have happened all the same?
///
/// A failed write or fsync can leave a complete transaction in the write-ahead log. No reader sees
/// it, and the next commit overwrites it; but after a crash before that, recovery would find it.
fn after_failed_commit(why: &Error, before: i64, after: Option<i64>) -> Failure {
    let disk_answered = why.sqlite_error_code() != Some(ErrorCode::SystemIoFailure);
    if disk_answered && after == Some(before) {
        Failure::Unavailable(explain(why))
    } else {
        Failure::Unknown(explain(why))
    }
}

/// SQLite takes some transactions back by itself; then there is nothing to do.
fn roll_back(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(why) = connection.execute_batch("ROLLBACK")
    {
        // The connection is dropped by its owner, which takes the transaction back for certain.
        tracing::warn!(%why, "a transaction could not be rolled back");
    }
}

/// Which installation the file is; `None`: none, it was emptied.
pub(super) fn epoch_of(connection: &Connection) -> rusqlite::Result<Option<Epoch>> {
    let epoch = connection
        .prepare_cached("SELECT v FROM meta WHERE k = 'epoch'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(epoch.map(Epoch))
}

struct Meta {
    policy_epoch: u64,
    turns: i64,
}

fn meta(connection: &Connection) -> rusqlite::Result<Meta> {
    connection
        .prepare_cached(
            "SELECT (SELECT v FROM meta WHERE k = 'policy_epoch'),
                    (SELECT v FROM meta WHERE k = 'turns')",
        )?
        .query_row([], |row| Ok(Meta { policy_epoch: row.get(0)?, turns: row.get(1)? }))
}

/// An error of SQLite in words that name the mend.
pub(super) fn explain(why: &Error) -> String {
    let mend = match why.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full or the file reached its limit: free space",
        Some(ErrorCode::ReadOnly) => "the file is read-only: make it and its folder writable",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program holds the file: close it"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "the file is damaged: run `portcullis doctor`, restore a backup"
        }
        Some(ErrorCode::SystemIoFailure) => "the disk failed: see the system's log",
        Some(_) | None => return why.to_string(),
    };
    format!("{mend} ({why})")
}

#[cfg(test)]
mod tests;
