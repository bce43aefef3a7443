//! Is the store as it should be? For `portcullis doctor`.
//!
//! Authority: SQLite's and the file system's own answers, asked now.
//! Invariant: looking changes nothing: no lock is taken, no schema made, no mode mended, and a
//! process that has the file open is not disturbed.

mod place;

use std::path::{Path, PathBuf};

use portcullis_proto::time::Ms;
use rusqlite::{Connection, OpenFlags};

use super::SqliteStore;
use super::clock::WallClock;
use super::open::{open_reader, refuse_strangers};
use super::work::Turn;
use crate::finding::Finding;
use crate::ports::{CLOCK_LAG_MS_MAX, StoreError};

/// A write-ahead log longer than this is worth a word, in bytes.
const WAL_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Faults that one check of the whole file names at most.
const FAULTS_MAX: i64 = 10;

/// Looks at a store that is not open here: place, permissions, clock, and the whole content, which
/// takes seconds for a big file. Blocks.
#[must_use]
pub fn look(path: &Path, wall: &WallClock) -> Vec<Finding> {
    let mut findings = place::look(path);
    if !path.exists() {
        let found = format!("{} will be made at the first start", path.display());
        findings.push(Finding::fine("sqlite-content", found));
        return findings;
    }
    findings.push(wal(path));
    findings.extend(content(path, wall));
    findings
}

impl SqliteStore {
    /// Looks at the open store: place, permissions, durability and clock; not at the content.
    ///
    /// # Errors
    /// When the store cannot even be asked.
    pub async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let writer = |turn: &mut Turn<'_>| Ok(Ok::<_, StoreError>(durability(turn.connection)?));
        let mut findings = vec![self.writer.ask(0, writer).await?];
        findings.extend(place::look(&self.settings.path));
        findings.push(wal(&self.settings.path));
        let reading = self.clock.read();
        findings.push(clock(reading.lag_ms, reading.now));
        Ok(findings)
    }

    /// Reads the whole file and says what is damaged. Takes seconds for a big file, during which
    /// one reader is busy.
    ///
    /// # Errors
    /// When the store cannot even be asked.
    pub async fn quick_check(&self) -> Result<Finding, StoreError> {
        self.read(|connection, _| Ok(judge_content(&faults(connection)?))).await
    }
}

fn durability(connection: &Connection) -> rusqlite::Result<Finding> {
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    let sync: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    Ok(judge_durability(&mode, sync))
}

/// `synchronous` 2 is FULL, 3 is EXTRA.
fn judge_durability(mode: &str, sync: i64) -> Finding {
    const CHECK: &str = "sqlite-durability";
    let found = format!("journal mode {mode}, synchronous {sync}");
    if mode == "wal" && 2 <= sync {
        return Finding::fine(CHECK, found);
    }
    let why = "answered commits may be lost in a power cut";
    Finding::fatal(CHECK, found, why, "this is a bug: report it")
}

fn wal(path: &Path) -> Finding {
    let bytes = std::fs::metadata(wal_path(path)).map_or(0, |file| file.len());
    judge_wal(bytes)
}

fn judge_wal(bytes: u64) -> Finding {
    const CHECK: &str = "sqlite-wal";
    let found = format!("the write-ahead log has {bytes} bytes");
    if bytes <= WAL_BYTES_MAX {
        return Finding::fine(CHECK, found);
    }
    let why = "another program's long read keeps it from being folded in; the disk fills up";
    Finding::warning(CHECK, found, why, "end what reads the file, such as an `sqlite3` shell")
}

fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// What can only be known from inside the file.
fn content(path: &Path, wall: &WallClock) -> Vec<Finding> {
    const CHECK: &str = "sqlite-content";
    let unreadable = |why: String| {
        let mend = "see what it says; if the file is damaged, restore a backup";
        vec![Finding::fatal(CHECK, why, "nothing can start", mend)]
    };
    if let Err(why) = refuse_strangers(path, open_looking) {
        return unreadable(why.to_string());
    }
    let asked = open_looking(path).and_then(|connection| {
        let sql = "SELECT v FROM meta WHERE k = 'hw'";
        let seen: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        Ok((faults(&connection)?, seen))
    });
    match asked {
        Ok((faults, seen)) => {
            let now = wall();
            vec![judge_content(&faults), clock((seen - now).max(0), Ms(now.max(seen)))]
        }
        Err(why) => unreadable(format!("{}: {why}", path.display())),
    }
}

/// Without a write-ahead log nobody has the file open, and a reader would have to make the files
/// that go with one: so the file alone is read, as it lies there.
fn open_looking(path: &Path) -> rusqlite::Result<Connection> {
    if wal_path(path).exists() {
        return open_reader(path);
    }
    let text = path.to_string_lossy();
    let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
}

fn faults(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = format!("PRAGMA quick_check({FAULTS_MAX})");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let faults = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(faults.into_iter().filter(|fault| fault != "ok").collect())
}

fn judge_content(faults: &[String]) -> Finding {
    const CHECK: &str = "sqlite-content";
    if faults.is_empty() {
        return Finding::fine(CHECK, "sound");
    }
    let mend = "stop the process and restore a backup";
    Finding::fatal(CHECK, faults.join("; "), "what was confirmed may be gone", mend)
}

fn clock(lag_ms: i64, now: Ms) -> Finding {
    const CHECK: &str = "sqlite-clock-lag";
    let found = format!("store time {now}, the wall clock is {lag_ms} ms behind it");
    if lag_ms <= CLOCK_LAG_MS_MAX {
        return Finding::fine(CHECK, found);
    }
    let why = "no granted call starts until the wall clock has caught up";
    let mend = "set the system's clock; if it was ahead by mistake, stop the process and reset \
                the store's clock";
    Finding::fatal(CHECK, found, why, mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn what_would_lose_answered_commits_is_fatal() {
        for (mode, sync, severity) in [
            ("wal", 2, Severity::Fine),
            ("wal", 3, Severity::Fine),
            ("wal", 1, Severity::Fatal),
            ("delete", 2, Severity::Fatal),
        ] {
            assert_eq!(judge_durability(mode, sync).severity, severity, "{mode} {sync}");
        }
    }

    #[test]
    fn faults_a_lag_and_a_long_log_are_told() {
        assert_eq!(judge_content(&[]).severity, Severity::Fine);
        assert_eq!(judge_content(&["a page".to_owned()]).severity, Severity::Fatal);
        assert_eq!(clock(CLOCK_LAG_MS_MAX, Ms(0)).severity, Severity::Fine);
        assert_eq!(clock(CLOCK_LAG_MS_MAX + 1, Ms(0)).severity, Severity::Fatal);
        assert_eq!(judge_wal(WAL_BYTES_MAX).severity, Severity::Fine);
        assert_eq!(judge_wal(WAL_BYTES_MAX + 1).severity, Severity::Warning);
    }
}
